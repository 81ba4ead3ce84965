// Package seatbelt has what would confine the JavaScript worker on macOS: a
// profile for Seatbelt, that system's sandbox, and the probes that prove it.
//
// The worker does not run on macOS. Nothing here has ever been run on a Mac: the
// text is generated and tested on Linux, the rest is compiled and vetted with
// GOOS=darwin. docs/open.md says what only a Mac can answer.
//
// # How it would be applied
//
// By sandbox_init(3) from within the worker, once the engine's framework is
// loaded, its world made, and before guest code: where the second filter is
// installed on Linux. The other way is to start the worker by sandbox-exec(1).
// Then the profile has to hold from the first instruction, so it must let the
// loader open and map the shared cache and every framework, read sysctls and
// look up services, all of which the guest would inherit; and there is one more
// program in the chain that Apple calls deprecated. sandbox_init is deprecated
// as well and takes a profile's text by a flag that its manual does not have;
// browsers use it so. What we give up is that a hole in the loading itself is
// outside of the sandbox. Both are undone by an update that changes the words
// of a profile; then sandbox_init refuses the text and no worker starts.
//
// The words of profiles are not documented by Apple. They are those that other
// programs' profiles use, in the first version of the language, in which some
// operations are allowed unless a profile denies them by name: process-info*,
// iokit-get-properties, nvram*, system-fcntl, syscall-unix and
// file-map-executable among them. So each is denied by name here.
package seatbelt

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// Options of a profile. The zero value is for the interpreter, and reads nothing.
type Options struct {
	// JIT lets the engine's compilers make code.
	JIT bool
	// Read are files, and ReadBelow folders with what is below them, that may be
	// read: absolute, clean, and without symbolic links, which a profile does not
	// follow (/tmp is /private/tmp). DataBelow is what the engine needs.
	Read, ReadBelow []string
}

// DataBelow are the folders that the engine reads after it was loaded: the data
// of Intl, mapped when it is first asked.
var DataBelow = []string{"/usr/share/icu"}

// maxPaths bounds what a profile names.
const maxPaths = 64

// rule is a line of a profile.
type rule struct {
	allow      bool
	operations string
	filter     string // "" for every use of the operations
	why        string
}

// rules are the same for every worker. The last that fits an operation counts.
var rules = []rule{
	{false, "default", "", "what is not named is denied"},
	{false, "process-info*", "", "arguments, environment and lists of other processes; allowed unless it is named"},
	{false, "sysctl*", "", "host name, hardware, boot, and KERN_PROCARGS2: the arguments and environment of other processes"},
	{false, "iokit-open", "", "drivers"},
	{false, "iokit-get-properties", "", "IOPlatformUUID and serial numbers; allowed unless it is named"},
	{false, "nvram*", "", "what the machine keeps over a start; allowed unless it is named"},
	{false, "ipc-sysv*", "", "System V queues, semaphores and memory outlive the worker"},
	{false, "syscall-unix", "(syscall-number " + sysvNumbers + ")", "the same by their system calls: semsys to shmget, since not each of them is asked as ipc-sysv"},
	{false, "syscall-unix", "(syscall-number 142)", "gethostuuid, the hardware's id"},
	{false, "system-fcntl", "(fcntl-command 50 71 102)", "F_GETPATH, F_GETPATH_MTMINFO, F_GETPATH_NOFIRMLINK: where a descriptor's file lies"},
	{false, "ipc-posix*", "", "POSIX memory and semaphores have names that other programs see"},
	{false, "mach-lookup", "", "services of the system and of the user"},
	{false, "mach-register", "", "being one"},
	{false, "mach-priv*", "", "ports of the host and of other tasks"},
	{false, "network*", "", "every socket, local ones too"},
	{false, "system-socket", "", "sockets of the kernel"},
	{false, "process-exec*", "", "other programs"},
	{false, "process-fork", "", "other processes"},
	{false, "signal", "", "other processes, its host among them"},
	{false, "file-read*", "", "files, their names and their attributes"},
	{false, "file-write*", "", "files"},
	{false, "file-map-executable", "", "code of files, for what is needed is mapped; allowed unless it is named"},
}

// sysvNumbers are semsys, msgsys, shmsys, semctl, semget, semop, msgctl, msgget,
// msgsnd, msgrcv, shmat, shmctl, shmdt and shmget; the same on both architectures.
const sysvNumbers = "251 252 253 254 255 256 258 259 260 261 262 263 264 265"

// Profile makes the text of a profile. An error names the path that cannot be in one.
func Profile(o Options) (string, error) {
	if len(o.Read)+len(o.ReadBelow) > maxPaths {
		return "", fmt.Errorf("seatbelt: more than %d paths", maxPaths)
	}
	all := append([]rule{}, rules...)
	if o.JIT {
		all = append(all, rule{true, "dynamic-code-generation", "", "the engine's compilers were asked for"})
	} else {
		all = append(all, rule{false, "dynamic-code-generation", "", "the engine interprets"})
	}
	all = append(all, rule{true, "signal", "(target self)", "abort, and the runtime's own"})
	for _, list := range []struct {
		paths       []string
		filter, why string
	}{{o.Read, "literal", "a file that the host named"}, {o.ReadBelow, "subpath", "a folder that the host named"}} {
		for _, p := range list.paths {
			quoted, err := quote(p)
			if err != nil {
				return "", err
			}
			all = append(all, rule{true, "file-read-data file-read-metadata", "(" + list.filter + " " + quoted + ")", list.why})
		}
	}
	var b strings.Builder
	b.WriteString("(version 1)\n")
	for _, r := range all {
		verb := "deny"
		if r.allow {
			verb = "allow"
		}
		fmt.Fprintf(&b, "; %s\n(%s %s", r.why, verb, r.operations)
		if r.filter != "" {
			b.WriteString(" " + r.filter)
		}
		b.WriteString(")\n")
	}
	return b.String(), nil
}

// quote makes a string of a profile. Whatever could end the string or mean
// something in it is refused, not escaped: no file of a system has such a name.
func quote(p string) (string, error) {
	bad := func(why string) (string, error) { return "", fmt.Errorf("seatbelt: path %q: %w", p, errors.New(why)) }
	switch {
	case !path.IsAbs(p):
		return bad("it is not absolute")
	case path.Clean(p) != p:
		return bad("it is not clean")
	case p == "/":
		return bad("it is everything")
	case len(p) > 1024:
		return bad("it is longer than 1,024 bytes")
	case !utf8.ValidString(p):
		return bad("it is not UTF-8")
	}
	for _, r := range p {
		if r < 0x20 || r == 0x7f || r >= 0x80 || strings.ContainsRune(`"\;|#'`+"`", r) {
			return bad(fmt.Sprintf("the character %q cannot be in a profile", r))
		}
	}
	return `"` + p + `"`, nil
}
