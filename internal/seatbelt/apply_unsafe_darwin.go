package seatbelt

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// libSystem has sandbox_init; it is part of every process.
const libSystem = "/usr/lib/libSystem.B.dylib"

// Apply confines this process, for ever, by a profile that Profile made. Load
// the engine before. An error means that nothing is confined.
// See https://developer.apple.com/library/archive/documentation/System/Conceptual/ManPages_iPhoneOS/man3/sandbox_init.3.html
func Apply(profile string) error {
	lib, err := purego.Dlopen(libSystem, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return fmt.Errorf("seatbelt: %w", err)
	}
	var apply func(profile string, flags uint64, message **byte) int32
	var free func(message *byte)
	purego.RegisterLibFunc(&apply, lib, "sandbox_init")
	purego.RegisterLibFunc(&free, lib, "sandbox_free_error")
	var message *byte
	if apply(profile, 0, &message) == 0 {
		return nil
	}
	if message == nil {
		return errors.New("seatbelt: sandbox_init refuses the profile")
	}
	defer free(message)
	return fmt.Errorf("seatbelt: sandbox_init: %s", text(message))
}

// text is a C string, at most a page of it.
func text(p *byte) string {
	n := 0
	for n < 4096 && *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// processInfo asks for the parent by proc_info, as libproc's proc_pidinfo does.
func processInfo() error {
	const pidInfo, bsdInfo = 2, 3 // PROC_INFO_CALL_PIDINFO, PROC_PIDTBSDINFO
	var buf [136]byte             // struct proc_bsdinfo
	_, _, errno := unix.Syscall6(unix.SYS_PROC_INFO, pidInfo, uintptr(os.Getppid()), bsdInfo, 0, uintptr(unsafe.Pointer(&buf[0])), unsafe.Sizeof(buf))
	if errno != 0 {
		return errno
	}
	return nil
}

func hostUUID() error {
	var uuid [16]byte
	wait := unix.Timespec{}
	_, _, errno := unix.Syscall(unix.SYS_GETHOSTUUID, uintptr(unsafe.Pointer(&uuid[0])), uintptr(unsafe.Pointer(&wait)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func getPath(fd int) error {
	var buf [1024]byte // MAXPATHLEN
	_, _, errno := unix.Syscall(unix.SYS_FCNTL, uintptr(fd), unix.F_GETPATH, uintptr(unsafe.Pointer(&buf[0])))
	if errno != 0 {
		return errno
	}
	return nil
}

// registry has the functions that read the registry of drivers.
type registry struct {
	matching func(class string) uintptr
	service  func(port uint32, matching uintptr) uint32
	property func(entry uint32, key, allocator uintptr, options uint32) uintptr
	release  func(object uint32) int32
	key      uintptr // the string IOPlatformUUID
}

func loadRegistry() (*registry, error) {
	iokit, err := purego.Dlopen("/System/Library/Frameworks/IOKit.framework/IOKit", purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("seatbelt: %w", err)
	}
	foundation, err := purego.Dlopen("/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation", purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("seatbelt: %w", err)
	}
	r := &registry{}
	var newString func(allocator uintptr, text string, encoding uint32) uintptr
	purego.RegisterLibFunc(&r.matching, iokit, "IOServiceMatching")
	purego.RegisterLibFunc(&r.service, iokit, "IOServiceGetMatchingService")
	purego.RegisterLibFunc(&r.property, iokit, "IORegistryEntryCreateCFProperty")
	purego.RegisterLibFunc(&r.release, iokit, "IOObjectRelease")
	purego.RegisterLibFunc(&newString, foundation, "CFStringCreateWithCString")
	const utf8 = 0x08000100
	if r.key = newString(0, "IOPlatformUUID", utf8); r.key == 0 {
		return nil, errors.New("seatbelt: no string could be made")
	}
	return r, nil
}

// platformUUID is EPERM where the registry does not show the machine, or not its id.
func (r *registry) platformUUID() error {
	entry := r.service(0, r.matching("IOPlatformExpertDevice"))
	if entry == 0 {
		return unix.EPERM
	}
	defer r.release(entry)
	if r.property(entry, r.key, 0, 0) == 0 {
		return unix.EPERM
	}
	return nil
}
