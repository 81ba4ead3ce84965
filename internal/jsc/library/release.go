package library

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
)

// Release says which release of WebKitGTK the library at path is of, such as
// "2.50.6". The library has three functions that return its parts, each of which
// loads a constant and returns; they are read and not run. An error means that
// the file has no such functions, or that they look otherwise.
func Release(path string) (string, error) {
	f, err := openPlain(path)
	if err != nil {
		return "", fmt.Errorf("engine: %s: %w", path, err)
	}
	defer f.close()
	image, err := elf.NewFile(f)
	if err != nil {
		return "", fmt.Errorf("engine: %s: %w", path, err)
	}
	symbols, err := image.DynamicSymbols()
	if err != nil {
		return "", fmt.Errorf("engine: %s: %w", path, err)
	}
	var parts [3]uint32
	found := 0
	for _, s := range symbols {
		for i, name := range [3]string{"jsc_get_major_version", "jsc_get_minor_version", "jsc_get_micro_version"} {
			if s.Name != name {
				continue
			}
			if parts[i], err = constant(image, s.Value); err != nil {
				return "", fmt.Errorf("engine: %s: %s: %w", path, name, err)
			}
			found |= 1 << i
		}
	}
	if found != 7 {
		return "", fmt.Errorf("engine: %s does not say its release", path)
	}
	return fmt.Sprintf("%d.%d.%d", parts[0], parts[1], parts[2]), nil
}

var errNoConstant = errors.New("it does not return a constant")

// constant reads the function at an address and returns what it returns.
func constant(image *elf.File, address uint64) (uint32, error) {
	for _, p := range image.Progs {
		if p.Type != elf.PT_LOAD || address < p.Vaddr || address-p.Vaddr >= p.Filesz {
			continue
		}
		code := make([]byte, min(16, p.Filesz-(address-p.Vaddr)))
		if _, err := p.ReadAt(code, int64(address-p.Vaddr)); err != nil {
			return 0, err
		}
		return returned(image.Machine, code)
	}
	return 0, errNoConstant
}

// returned decodes "load a constant, return", with or without a mark for
// indirect branches before it.
func returned(machine elf.Machine, code []byte) (uint32, error) {
	word := func(at int) uint32 {
		if at+4 > len(code) {
			return 0
		}
		return binary.LittleEndian.Uint32(code[at:])
	}
	switch machine {
	case elf.EM_X86_64:
		if word(0) == 0xfa1e0ff3 { // endbr64
			code = code[4:]
		}
		if len(code) >= 6 && code[0] == 0xb8 && code[5] == 0xc3 { // mov eax, n; ret
			return word(1), nil
		}
		if len(code) >= 3 && code[0] == 0x31 && code[1] == 0xc0 && code[2] == 0xc3 { // xor eax, eax; ret
			return 0, nil
		}
	case elf.EM_AARCH64:
		if word(0) == 0xd503245f { // bti c
			code = code[4:]
		}
		if w := word(0); w&0xffe0001f == 0x52800000 && word(4) == 0xd65f03c0 { // mov w0, n; ret
			return w >> 5 & 0xffff, nil
		}
	}
	return 0, errNoConstant
}
