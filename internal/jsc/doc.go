// Package jsc is the only binding of JavaScriptCore, without cgo: a small part of
// its C API, typed, for one context in one process.
//
// # Threads
//
// Nothing here is safe for use by several goroutines. The goroutine that called
// Load is locked to its thread and makes every call; a call from another thread
// is an error, or a panic where there is no error to return. The engine starts threads
// of its own, for its collector, its compilers and the timer of the time limit;
// none of them runs JavaScript or calls back.
//
// # Values and the collector
//
// The engine's collector looks for values on C stacks and not on Go's. So each
// Value that a function here returns is protected before the next call, until
// Release; the concurrent collector is off, since it could run in between. What
// a callback is given is held by its caller, and ends with the call.
//
// # Exceptions
//
// What JavaScript throws comes back as *Exception. A Go error of a callback is
// thrown in JavaScript; a panic too, with a fixed text. No Go panic unwinds
// the engine's frames. runtime.Goexit in a callback ends the process.
package jsc
