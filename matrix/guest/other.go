//go:build !linux

// Command guest is the first process of a matrix machine, which runs Linux.
package main

func main() { panic("the guest runs on Linux") }
