//go:build linux

package matrix

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// board is what differs between the machines of the architectures.
type board struct {
	emulator, machine, cpu string
	console, port          string   // as Linux names the two serial ports
	frames                 []string // the second one, as arguments of QEMU
}

// boards are those that QEMU has for each architecture. Pointer authentication
// would make an emulated arm64 processor several times slower, so it has one
// without.
var boards = map[string]board{
	"amd64": {"qemu-system-x86_64", "pc", "max", "ttyS0", "ttyS1", []string{"-serial", "chardev:frames"}},
	"arm64": {"qemu-system-aarch64", "virt", "cortex-a72", "ttyAMA0", "ttyS0", []string{"-device", "pci-serial,chardev=frames"}},
}

// board is that of the machine's kernel.
func (vm VM) board() board { return boards[vm.Kernel.Arch] }

// knownArch refuses what there is no board for.
func knownArch(arch string) error {
	if !slices.Contains(Architectures(), arch) {
		return fmt.Errorf("architecture %q is unknown: there are %s", arch, strings.Join(Architectures(), ", "))
	}
	return nil
}

// suffix ends the names of what is kept for an architecture.
func suffix(arch string) string {
	if arch == "amd64" {
		return ""
	}
	return "-" + arch
}

// maxImage bounds an unpacked boot image.
const maxImage = 256 << 20

// bootable replaces a boot image that unpacks itself, but only under EFI, by
// what is in it: the machines have no firmware. Others stay as they are.
func bootable(name string) error {
	text, err := os.ReadFile(name)
	if err != nil || len(text) < 64 || string(text[:2]) != "MZ" || string(text[4:8]) != "zimg" {
		return err
	}
	// See zboot-header.S of Linux: offset and size of the payload, and how it is packed.
	at, size := uint64(binary.LittleEndian.Uint32(text[8:])), uint64(binary.LittleEndian.Uint32(text[12:]))
	kind, _, _ := strings.Cut(string(text[24:56]), "\x00")
	if at+size > uint64(len(text)) || kind != "gzip" {
		return fmt.Errorf("a boot image packed with %q, %d bytes at %d of %d", kind, size, at, len(text))
	}
	z, err := gzip.NewReader(bytes.NewReader(text[at : at+size]))
	if err != nil {
		return err
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxImage))
	if err != nil {
		return err
	}
	return os.WriteFile(name, plain, 0o644)
}
