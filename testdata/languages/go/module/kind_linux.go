package main

func kind() string { return "linux" }
