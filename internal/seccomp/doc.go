// Package seccomp turns a written policy into a system call filter.
//
// # The three answers
//
// Every system call of the newest kernel tables has a row in policy/*.txt, with a reason. A row allows the
// call, refuses it with an errno that lets libc or the program fall back, or belongs to the kill class: what
// no legitimate program calls, not even to find out whether it is there. The kill class is answered by a user
// notification where a listener was asked for, else by SECCOMP_RET_KILL_PROCESS; it never runs. Numbers
// without a row answer ENOSYS. On x86_64 every call of the i386 and x32 ABIs is of the kill class, on
// aarch64 every call of 32-bit ARM.
//
// # The policy language
//
// A file is a list of rows; # starts the reason, which is required; a backslash joins two lines.
//
//	NAME ANSWER
//	NAME if TEST and TEST : ANSWER ; if TEST : ANSWER ; else ANSWER
//	let NAME = VALUE
//	include FILE
//	over FILE
//	narrow FILE
//
// After include the rows of FILE are this file's too. After over a row here replaces one of FILE. After narrow
// all that FILE allows, wholly or in part, is refused with EPERM but for the rows here.
//
// An ANSWER is allow, kill, errno ENAME, or denied ENAME, which answers the same errno but can never be
// lifted with Policy.With. The first branch whose tests all hold decides. A TEST is one of
//
//	argN:WIDTH is V ...           one of the values
//	argN:WIDTH mask M is V ...    one of the values, after masking
//	argN:WIDTH only M             no bit outside M
//	argN:WIDTH any M              at least one bit of M
//	argN:WIDTH none M             no bit of M
//	argN:ptr null                 both halves zero
//
// WIDTH is the width that the kernel gives the parameter: u16, u32 or u64. A test in a branch that refuses
// compares exactly that width, as the kernel will; a test in a branch that allows compares that width and
// demands zero above it. A VALUE is names and numbers joined by |, all inverted by a leading ~.
//
// loopback.txt is laid over a profile by Options.Loopback; each of its rows replaces one.
//
// # How to add a call
//
// A kernel with new calls: go run ./internal/seccomp/headers/refresh -suite sid says what Debian's newest headers
// have and tables/*.tsv lack, and adds it with -write; then add a row for each name, or the tests fail. A program that needs a refused call: name it to Policy.With (the host's business, from a
// trace), or change its row here if every guest should have it. A call that is always denied cannot be
// added, and one with an argument rule cannot be widened.
//
// # Traces
//
// learnable.txt lists what a trace may let through, each call with its risk; CompileTrace makes the programs of
// a traced cell, see docs/adr/0007-trace.md. traces has what the programs of each language call, and untraced.txt
// the reason for each call that is allowed although none of them makes it; a test holds the policy against both.
//
// # Golden files
//
// testdata/answers has, for each profile and architecture, a line for each number of each entry with what the
// compiled program says, around every boundary of its arguments; testdata/disassembly has the programs. After
// a change that is meant, write them anew with
//
//	go test ./internal/seccomp -run Golden -update
//
// and read the diff: it is what changes for every guest.
//
// # Size
//
// On x86_64 the language profile has 428 instructions (2,362 as a list), 488 with loopback; on aarch64 382
// and 456. A call is decided after about eight comparisons. Loading takes some 95 µs, most of it the
// kernel's own check and its cache of what is always allowed; making the program from the text takes 0.7 ms
// and is best done once (BenchmarkLoad, BenchmarkCompile).
//
// # Limits
//
// A filter sees register values, never memory: flags in a struct (clone3, openat2) and the address of a
// sendmsg cannot be judged, so such calls are refused, or allowed because something else bounds them. It
// cannot tell which file a descriptor is. On x86_64 newer kernels, Linux 6.18
// among them, keep the calls uretprobe and uprobe from every filter; outside a probe's own page they end the
// process with SIGILL and answer ENXIO. sysinfo shows the host's memory and uptime and is allowed, because
// glibc takes its page counts from there and does not look at the error. Python's forkserver and Manager
// need a local socket with an address and are refused; fork, spawn, pools, queues and pipes work. The
// tables are those of Linux 7.2; the filter is for little-endian x86_64 and aarch64.
package seccomp
