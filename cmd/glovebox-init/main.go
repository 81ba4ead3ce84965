//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command glovebox-init is the launcher of cells and the first process of each.
// It is started by the glovebox library, never by hand.
package main

import (
	"os"
	"runtime"

	"github.com/glovebox-dev/glovebox/internal/cellinit"
)

// The main goroutine stays on the main thread: the thread that forks a guest
// must never be the leader of PID 1.
func init() { runtime.LockOSThread() }

func main() { cellinit.Main(os.Args) }
