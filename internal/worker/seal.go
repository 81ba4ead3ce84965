//go:build linux

package worker

// Seal puts every thread of the calling process under the filter of a sealed
// worker, for a program that takes a worker's place in tests. There is no way
// back.
func Seal() error { return seal() }
