package library

import "debug/elf"

const (
	triplet = "x86_64-linux-gnu"
	machine = elf.EM_X86_64
)
