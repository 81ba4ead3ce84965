//go:build linux

// Command glovebox-js is the worker of one JavaScript runtime. Glovebox starts
// it in a sealed cell, with a socket as its standard input; it is of no use by
// hand.
package main

import (
	"os"
	"runtime"

	"github.com/glovebox-dev/glovebox/internal/worker"
)

// The engine belongs to the main thread: the one with the stack that grows.
func init() { runtime.LockOSThread() }

func main() { os.Exit(worker.Main(os.Args)) }
