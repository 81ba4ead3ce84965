package service_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// TestMain makes the test's program what starts a service on a small disk, when a test
// asks for that.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "small-disk" {
		fmt.Fprintln(os.Stderr, smallDisk(os.Args[2], os.Args[3:]...))
		os.Exit(1)
	}
	testenv.Deselect()
	os.Exit(m.Run())
}
