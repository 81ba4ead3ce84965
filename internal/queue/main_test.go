package queue

import (
	"os"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// childVar makes the test's program a service of its own, which a test can kill.
const childVar = "GLOVEBOX_TEST_QUEUE_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVar); dir != "" {
		child(dir)
		return
	}
	if dir := os.Getenv(fullVar); dir != "" {
		fullChild(dir)
		return
	}
	testenv.Deselect()
	os.Exit(m.Run())
}
