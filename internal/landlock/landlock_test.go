package landlock

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// The rights by version, as landlock(7) lists them.
func TestHandled(t *testing.T) {
	for abi, want := range map[int][3]uint64{
		0: {}, 1: {0x1fff, 0, 0}, 2: {0x3fff, 0, 0}, 3: {0x7fff, 0, 0}, 4: {0x7fff, 3, 0}, 5: {0xffff, 3, 0}, 6: {0xffff, 3, 3}, 7: {0xffff, 3, 3},
	} {
		if got := [3]uint64{Handled(abi), HandledNet(abi), Scopes(abi)}; got != want {
			t.Errorf("ABI %d: %#x, want %#x", abi, got, want)
		}
	}
}

// This kernel takes everything that is handled for its version, and nothing
// beyond: the next right of each kind is unknown to it.
//
// proves O-14
func TestKernelKnowsNoMore(t *testing.T) {
	abi := ABI()
	fs, net, scopes := Handled(abi), HandledNet(abi), Scopes(abi)
	fd, err := Create(fs, net, scopes)
	if abi == 0 {
		if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EOPNOTSUPP) {
			t.Errorf("a kernel without Landlock: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatalf("ABI %d: %v", abi, err)
	}
	unix.Close(fd)
	for what, more := range map[string][3]uint64{"fs": {fs + 1, net, scopes}, "net": {fs, net + 1, scopes}, "scope": {fs, net, scopes + 1}} {
		if fd, err := Create(more[0], more[1], more[2]); err == nil {
			unix.Close(fd)
			t.Errorf("the kernel knows another right of the kind %s", what)
		}
	}
}
