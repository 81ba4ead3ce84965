package greet

// Hello greets.
func Hello(name string) string { return "hello " + name }
