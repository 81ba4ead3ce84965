//go:build linux

package matrix

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// zboot packs an image as newer arm64 kernels are packed for EFI.
func zboot(t *testing.T, kind string, plain []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 64)
	copy(head, "MZ\x00\x00zimg")
	binary.LittleEndian.PutUint32(head[8:], 64)
	binary.LittleEndian.PutUint32(head[12:], uint32(packed.Len()))
	copy(head[24:], kind)
	return append(head, packed.Bytes()...)
}

// A boot image that only EFI could unpack is unpacked, another stays as it is,
// and one that is packed in another way or is cut off is an error.
func TestBootable(t *testing.T) {
	plain := bytes.Repeat([]byte("kernel "), 100)
	whole := zboot(t, "gzip", plain)
	for name, tt := range map[string]struct {
		image, want []byte
	}{
		"plain": {plain, plain}, "short": {[]byte("MZ"), []byte("MZ")}, "packed": {whole, plain},
		"other": {zboot(t, "zstd22", plain), nil}, "cut": {whole[:len(whole)-9], nil},
	} {
		file := filepath.Join(t.TempDir(), "vmlinuz")
		if err := os.WriteFile(file, tt.image, 0o600); err != nil {
			t.Fatal(err)
		}
		err := bootable(file)
		got, readErr := os.ReadFile(file)
		if readErr != nil || (err != nil) != (tt.want == nil) || err == nil && !bytes.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v, %d bytes", name, err, readErr, len(got))
		}
	}
}

// Every architecture has a board, and names of what is kept for it are its own.
func TestBoards(t *testing.T) {
	seen := map[string]bool{}
	for _, arch := range Architectures() {
		if b := boards[arch]; b.emulator == "" || b.console == "" || b.port == "" || len(b.frames) == 0 || seen[suffix(arch)] {
			t.Errorf("%s: %+v", arch, b)
		}
		seen[suffix(arch)] = true
	}
	if len(boards) != len(Architectures()) {
		t.Errorf("%d boards", len(boards))
	}
}
