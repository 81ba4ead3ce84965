package glovebox

import (
	"errors"
	"os"

	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/cellinit"
)

// Init lets a program that ships no glovebox-init beside it be its own: call it
// first in main, before flags are read or goroutines started. In a process that
// Glovebox started as launcher or as the first process of a cell it does not
// return; in every other it does nothing but remember that it was called.
//
// The program must be built without cgo: sealing needs a call on every thread,
// which the Go runtime makes only then. Go turns cgo on by itself where it finds
// a C compiler, so build with CGO_ENABLED=0; else [New] refuses, and says that
// the program was built with cgo.
func Init() {
	cell.Adopt()
	if len(os.Args) == 2 && os.Args[0] == cellinit.Name && (os.Args[1] == cellinit.ModeLauncher || os.Args[1] == cellinit.ModeInit) {
		cellinit.Main(os.Args)
	}
}

func asSandbox(err error, to **SandboxError) bool { return errors.As(err, to) }
