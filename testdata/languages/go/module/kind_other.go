//go:build !linux

package main

func kind() string { return "other" }
