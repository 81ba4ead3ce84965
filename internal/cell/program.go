package cell

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// openInit returns a descriptor of the program that launcher and init are
// started from: a sealed copy in memory, so that what was checked is what runs
// for as long as this host lives. Where the system forbids programs in memory
// (vm.memfd_noexec) it is the file itself, opened read-only.
func openInit(path string) (*os.File, error) {
	src, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if err := trusted(src); err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("glovebox-init", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before 6.3 there is no MFD_EXEC and every memfd may be executed
		fd, err = unix.MemfdCreate("glovebox-init", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return os.Open(path)
	}
	if err != nil {
		return nil, fmt.Errorf("memory file: %w", err)
	}
	mem := os.NewFile(uintptr(fd), "glovebox-init")
	defer mem.Close()
	if _, err := io.Copy(mem, src); err != nil {
		return nil, err
	}
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	// Opened again read-only: a descriptor that may write cannot be executed.
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// Trusted refuses a program that somebody else could have written: what root or
// this user owns and nobody else may write to is trusted.
func Trusted(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return trusted(f)
}

// trusted refuses a program that somebody else could have written.
func trusted(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is not a regular file", f.Name())
	}
	if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, neither to root nor to this user", f.Name(), st.Uid)
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("%s may be written by others (mode %#o)", f.Name(), st.Mode&0o777)
	}
	return nil
}

var adopted bool

// Adopt remembers that the running program is an init too, if it is started as
// one. It is for the start of main.
func Adopt() { adopted = true }

// findInit looks for glovebox-init beside the running program, which is smaller
// and so starts sooner than one that is its own.
func findInit() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), "glovebox-init")
	if _, err := os.Stat(path); err != nil {
		if adopted {
			return self, nil
		}
		return "", fmt.Errorf("glovebox-init is not beside %s: install it there, set Options.InitPath, or call glovebox.Init first in main", filepath.Base(self))
	}
	return path, nil
}
