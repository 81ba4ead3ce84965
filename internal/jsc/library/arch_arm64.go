package library

import "debug/elf"

const (
	triplet = "aarch64-linux-gnu"
	machine = elf.EM_AARCH64
)
