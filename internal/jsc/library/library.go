// Package library finds the JavaScript engine on the host, JavaScriptCore as
// the system ships it, and says which files a process that loads it maps. It
// reads ELF files and nothing else: no loader is asked, no program is started
// and the engine is not loaded, so host programs may use it.
package library

import (
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNotFound is wrapped by Find's error where the host has no engine.
var ErrNotFound = errors.New("no JavaScriptCore library")

// Package is the Debian package that holds the engine which Find prefers.
const Package = "libjavascriptcoregtk-6.0-1"

// sonames are the engines that are accepted, best first. All have the same C API.
var sonames = []string{"libjavascriptcoregtk-6.0.so.1", "libjavascriptcoregtk-4.1.so.0", "libjavascriptcoregtk-4.0.so.18"}

// Library is one engine's file as it lies on the disk. The zero value is none.
type Library struct {
	Path    string // absolute, no symbolic link in it
	Soname  string // as the file says of itself, such as libjavascriptcoregtk-6.0.so.1
	Version string // the API of the soname and the file's own number, such as "6.0 (1.6.11)"
	BuildID string // the linker's note, in hexadecimal; never empty
	Device  uint64 // of the file, with Inode its identity
	Inode   uint64
}

// Find returns the first engine of the fixed places of this architecture. The
// file and every directory above it belong to root, and nobody else may write
// to them. The environment, the working directory and the loader's cache have
// no say. An error names the package to install, or what is wrong with the file.
func Find() (Library, error) { return find("/", 0) }

func find(root string, owner uint32) (Library, error) {
	dirs := directories(root)
	for _, soname := range sonames {
		for _, dir := range dirs {
			path := filepath.Join(dir, soname)
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return trusted(path, root, owner)
		}
	}
	return Library{}, fmt.Errorf("%w: install the package %s (%s)", ErrNotFound, Package, strings.Join(sonames, ", "))
}

// trusted looks at the whole way to the file: as it was named, and as it is
// without symbolic links.
func trusted(path, root string, owner uint32) (Library, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Library{}, err
	}
	for _, p := range []string{filepath.Dir(path), real} {
		if err := ownedWay(p, root, owner); err != nil {
			return Library{}, err
		}
	}
	return Inspect(real)
}

// ownedWay holds p and each directory above it, up to root, against the rule.
// Links are followed, since what they name is checked by itself.
func ownedWay(p, root string, owner uint32) error {
	for {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case !ok:
			return fmt.Errorf("engine: %s has no owner", p)
		case st.Uid != owner:
			return fmt.Errorf("engine: %s belongs to user %d and not to root", p, st.Uid)
		case info.Mode().Perm()&0o022 != 0:
			return fmt.Errorf("engine: %s can be written to by others than its owner (mode %#o)", p, info.Mode().Perm())
		}
		if p == root || p == "/" {
			return nil
		}
		p = filepath.Dir(p)
	}
}

// Inspect reads the engine at path, an absolute name without symbolic links,
// and asks nothing about its owner: for a process in a user namespace, to which
// root is nobody, and which compares what it finds with what it was told.
func Inspect(path string) (Library, error) {
	f, err := openPlain(path)
	if err != nil {
		return Library{}, fmt.Errorf("engine: %s: %w", path, err)
	}
	defer f.close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return Library{}, fmt.Errorf("engine: %s is not a file", path)
	}
	lib := Library{Path: path, Device: uint64(st.Dev), Inode: st.Ino}
	image, err := elf.NewFile(f)
	if err != nil {
		return Library{}, fmt.Errorf("engine: %s: %w", path, err)
	}
	if machine != image.Machine {
		return Library{}, fmt.Errorf("engine: %s is for %v, this program for %v", path, image.Machine, machine)
	}
	if lib.BuildID, err = buildID(image); err != nil {
		return Library{}, fmt.Errorf("engine: %s: %w", path, err)
	}
	names, err := image.DynString(elf.DT_SONAME)
	if err != nil || len(names) != 1 {
		return Library{}, fmt.Errorf("engine: %s has no name of its own", path)
	}
	lib.Soname = names[0]
	lib.Version = version(lib.Soname, filepath.Base(path))
	return lib, nil
}

// Same says whether other is the same file with the same content, as far as
// device, inode and build id tell.
func (l Library) Same(other Library) bool {
	return l.Path == other.Path && l.BuildID == other.BuildID && l.Device == other.Device && l.Inode == other.Inode
}

// version makes "6.0 (1.6.11)" of a soname and the name of its file.
func version(soname, file string) string {
	api, _, _ := strings.Cut(strings.TrimPrefix(soname, "libjavascriptcoregtk-"), ".so.")
	_, number, ok := strings.Cut(file, ".so.")
	if !ok {
		return api
	}
	return api + " (" + number + ")"
}

// buildID reads the note that the linker puts into a file.
func buildID(image *elf.File) (string, error) {
	s := image.Section(".note.gnu.build-id")
	if s == nil || s.Size > 4096 {
		return "", errors.New("no build id")
	}
	note, err := s.Data()
	if err != nil {
		return "", err
	}
	if len(note) < 16 {
		return "", errors.New("no build id")
	}
	name, size := image.ByteOrder.Uint32(note), image.ByteOrder.Uint32(note[4:])
	if name != 4 || string(note[12:16]) != "GNU\x00" || size < 8 || uint64(size) > uint64(len(note)-16) {
		return "", errors.New("no build id")
	}
	return hex.EncodeToString(note[16 : 16+size]), nil
}

// Files returns what a process that loads the library maps: the library, every
// library that it needs, directly or not, and the loader; absolute names
// without symbolic links, sorted. Where the C library knows variants for newer
// processors, they are in the list too. A name that is in none of the fixed
// directories is an error.
func (l Library) Files() ([]string, error) {
	return Closure(l.Path)
}

// maxFiles bounds a closure; an engine has about thirty files.
const maxFiles = 512

// Closure returns the given files and all that they need, as Files does: for a
// program as well as for a library.
func Closure(paths ...string) ([]string, error) {
	dirs := directories("/")
	var files []string
	queue := slices.Clone(paths)
	for len(queue) > 0 {
		path, err := filepath.EvalSymlinks(queue[0])
		if err != nil {
			return nil, err
		}
		queue = queue[1:]
		if slices.Contains(files, path) {
			continue
		}
		if len(files) == maxFiles {
			return nil, fmt.Errorf("engine: more than %d files are needed", maxFiles)
		}
		files = append(files, path)
		needed, err := needs(path)
		if err != nil {
			return nil, fmt.Errorf("engine: %s: %w", path, err)
		}
		for _, name := range needed {
			found := candidates(name, dirs)
			if len(found) == 0 {
				return nil, fmt.Errorf("engine: %s needs %s, which is in none of %s", path, name, strings.Join(dirs, ", "))
			}
			queue = append(queue, found...)
		}
	}
	slices.Sort(files)
	return files, nil
}

// needs lists what an ELF file names: its libraries and its interpreter.
func needs(path string) ([]string, error) {
	image, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer image.Close()
	names, err := image.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	for _, p := range image.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz == 0 || p.Filesz > 4096 {
			continue
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err != nil {
			return nil, err
		}
		names = append(names, strings.TrimRight(string(b), "\x00"))
	}
	return names, nil
}

// candidates returns the files that a needed name may mean: the first in the
// order of the directories, and its variants for newer processors.
func candidates(name string, dirs []string) []string {
	if filepath.IsAbs(name) {
		return []string{name}
	}
	if strings.ContainsRune(name, '/') {
		return nil
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		variants, err := filepath.Glob(filepath.Join(dir, "glibc-hwcaps", "*", name))
		if err != nil {
			return nil // the pattern is ours and well formed but for a strange name
		}
		return append([]string{path}, variants...)
	}
	return nil
}

// directories are the places of libraries, in the loader's order.
func directories(root string) []string {
	var dirs []string
	for _, d := range []string{"lib/" + triplet, "usr/lib/" + triplet, "lib64", "usr/lib64", "lib", "usr/lib"} {
		dirs = append(dirs, filepath.Join(root, d))
	}
	return dirs
}
