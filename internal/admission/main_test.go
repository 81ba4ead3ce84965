package admission

import (
	"os"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Deselect()
	os.Exit(m.Run())
}
