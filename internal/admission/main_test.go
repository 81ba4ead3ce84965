package admission

import (
	"os"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVar); dir != "" {
		child(dir)
		return
	}
	testenv.Deselect()
	os.Exit(m.Run())
}
