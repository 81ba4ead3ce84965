package glovebox_test

import (
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

const mebi = 1 << 20

// Patterns of the table.
const (
	notPermitted = "Operation not permitted"
	forkRetry    = `(\./main\.sh: fork: retry: Resource temporarily unavailable\n)+`
	statusSet    = `CapInh:\t0{16}\nCapPrm:\t0{16}\nCapEff:\t0{16}\nCapBnd:\t0{16}\nCapAmb:\t0{16}\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n`
)

// wallFrom wants a run that lasted from its limit on, and at most a second
// more.
func wallFrom(ms float64) between { return between{ms, ms + 1000} }

// caseTable is every file of caseDir in order. Limits are those of the
// complaint; what it left open has the defaults.
var caseTable = []caseEntry{
	// Ends and descendants.
	{file: "001-daemon-double-fork.py", want: caseWant{verdict: api.OK, stdout: "parent done\n", wall: between{0, 5000}}},
	{file: "002-bg-sleep-pipe.sh", want: caseWant{verdict: api.OK, stdout: "started\n", wall: between{0, 5000}}},
	{file: "004-sigstop-group.sh", limits: glovebox.Limits{WallMS: 2000},
		want: caseWant{verdict: api.Timeout, cause: api.CauseWall, exit: noExit, stdout: "before\n", wall: wallFrom(2000)}},
	{file: "006-close-stdio-run-on.py", limits: glovebox.Limits{WallMS: 2000},
		want: caseWant{verdict: api.Timeout, cause: api.CauseWall, exit: noExit, wall: wallFrom(2000)}},
	{file: "007-leader-thread-exits.c", limits: glovebox.Limits{WallMS: 5000},
		want: caseWant{verdict: api.OK, stdout: "worker done\n", wall: between{1000, 5000}}},
	{file: "008-ignore-sigterm.py", limits: glovebox.Limits{WallMS: 1000},
		want: caseWant{verdict: api.Timeout, cause: api.CauseWall, exit: noExit, stdout: "immune\n", wall: wallFrom(1000)}},
	{file: "009-orphan-zombies.c", limits: glovebox.Limits{WallMS: 10_000, Pids: 32}, want: caseWant{verdict: api.OK, stdout: "ok 300\n"}},
	{file: "010-self-sigterm.py", limits: glovebox.Limits{WallMS: 5000},
		want: caseWant{verdict: api.Error, exit: noExit, signal: "SIGTERM", stdoutPattern: `pid \d+\n`}},
	{file: "012-exit-137.sh", want: caseWant{verdict: api.Error, exit: 137}},
	{file: "014-exec-missing.json", script: caseExecMissing},
	{file: "015-crlf-shebang.sh", also: caseThenHello,
		want: caseWant{verdict: api.OK, stdout: "code 127\n", stderr: "./main.sh: line 4: ./run.sh: cannot execute: required file not found\n"}},

	// Time.
	{file: "016-sleep-no-cpu.py", limits: glovebox.Limits{WallMS: 2000, CPUMS: 1000},
		want: caseWant{verdict: api.Timeout, cause: api.CauseWall, exit: noExit, wall: wallFrom(2000), cpu: between{0, 200}}},
	{file: "017-stdin-not-given.py", limits: glovebox.Limits{WallMS: 5000}, want: caseWant{verdict: api.OK, stdout: "name? EOF\n"}},
	{file: "018-sigxcpu-ignored.c", limits: glovebox.Limits{WallMS: 10_000, CPUMS: 1000},
		want: caseWant{verdict: api.Timeout, cause: api.CauseCPU, exit: noExit, cpu: between{1000, 1500}}},
	{file: "020-cpu-200ms.py", limits: glovebox.Limits{WallMS: 5000, CPUMS: 200},
		want: caseWant{verdict: api.Timeout, cause: api.CauseCPU, exit: noExit, cpu: between{200, 400}}},
	{file: "021-finish-at-deadline.json", script: caseFinishAtDeadline},
	{file: "022-flushed-before-timeout.py", limits: glovebox.Limits{WallMS: 1000},
		want: caseWant{verdict: api.Timeout, cause: api.CauseWall, exit: noExit, stdout: "one\ntwo\n", stderr: "warn\n", wall: wallFrom(1000)}},

	// Memory.
	{file: "024-tmpfs-fill.py", limits: glovebox.Limits{MemoryBytes: 64 * mebi, DiskBytes: 64 * mebi},
		want: caseWant{verdict: api.MemoryLimit, exit: noExit, signal: "SIGKILL", oom: true, peak: between{60 * mebi, 64 * mebi}}},
	{file: "026-sysv-shm-left.c", limits: glovebox.Limits{MemoryBytes: 64 * mebi}, script: caseSegmentsLeft},
	{file: "028-oom-child-only.py", limits: glovebox.Limits{MemoryBytes: 64 * mebi},
		want: caseWant{verdict: api.MemoryLimit, stdout: "child signal 9\n", oom: true, peak: between{60 * mebi, 64 * mebi}}},
	{file: "029-big-static-array.c", limits: glovebox.Limits{MemoryBytes: 256 * mebi},
		want: caseWant{verdict: api.MemoryLimit, exit: noExit, signal: "SIGKILL", oom: true, peak: between{250 * mebi, 256 * mebi}}},
	{file: "030-memoryerror-caught.py", limits: glovebox.Limits{MemoryBytes: 256 * mebi}, want: caseWant{verdict: api.OK, stdout: "handled\n"}},
	{file: "031-mem-report-floor.c", script: caseBigHost},
	{file: "033-v8-heap-oom.js", limits: glovebox.Limits{WallMS: 20_000, MemoryBytes: 256 * mebi},
		want: caseWant{verdict: api.Error, exit: noExit, signal: "SIGABRT", stderrPattern: `(?s).*FATAL ERROR: .* JavaScript heap out of memory\n.*`, peak: between{128 * mebi, 256 * mebi}}},

	// Files.
	{file: "034-sparse-huge.py", want: caseWant{verdict: api.OK, stdout: "errno 27\n", wall: between{0, 2000}}},
	{file: "036-fsize-efbig.py", limits: glovebox.Limits{FileBytes: 8 * mebi}, also: caseFileSizeElsewhere,
		want: caseWant{verdict: api.OK, stdout: "27 8\n"}},
	{file: "038-inode-bomb.py", limits: glovebox.Limits{WallMS: 20_000},
		want: caseWant{verdict: api.OK, stdoutPattern: `errno 28\nmade 99\d\d\n`}},
	{file: "039-many-files-sum.py", limits: glovebox.Limits{FileBytes: 8 * mebi, DiskBytes: 64 * mebi},
		want: caseWant{verdict: api.OK, stdoutPattern: `errno 28 6[0-4]\n`}},
	{file: "041-locked-dirs.sh", also: caseThenEmpty,
		want: caseWant{verdict: api.OK, stdoutPattern: `d--------- .* lock\ndr-xr-xr-x .* ro\n`}},

	// Processes.
	{file: "042-fork-bomb.sh", limits: glovebox.Limits{WallMS: 2000, Pids: 64},
		want: caseWant{verdict: api.Timeout, cause: api.CauseWall, exit: noExit, stderrPattern: forkRetry, forks: true, wall: wallFrom(2000)}},
	{file: "043-bash-chain.sh", limits: glovebox.Limits{WallMS: 5000, Pids: 64},
		want: caseWant{verdict: api.Timeout, cause: api.CauseWall, exit: noExit, stderrPattern: forkRetry, forks: true, wall: wallFrom(5000)}},
	{file: "044-thread-bomb.c", limits: glovebox.Limits{Pids: 64},
		want: caseWant{verdict: api.OK, stdout: "threads 63 Resource temporarily unavailable\n", forks: true}},

	// Output.
	{file: "047-flood-stdout.py", limits: glovebox.Limits{WallMS: 10_000, StdoutBytes: mebi},
		want: caseWant{verdict: api.OutputLimit, cause: api.CauseStdout, exit: noExit, cut: api.Truncated{Stdout: true}, wall: between{0, 8000},
			stdout: strings.Repeat(strings.Repeat("0123456789", 10)+"\n", mebi/101+1)[:mebi]}},
	{file: "049-piston-1024.py", want: caseWant{verdict: api.OK, stdout: strings.Repeat("Hello world\n", 1626)}},
	{file: "050-bad-utf8.py", want: caseWant{verdict: api.OK, stdout: "\xff\xfeok\x80\xc0\xaf\xf5\n\x00"}},
	{file: "051-utf8-split.py", want: caseWant{verdict: api.OK, stdout: "é漢😀"}},
	// Ten seconds are for the guest; its 20 MiB are handled afterwards, by a host under the race detector too.
	{file: "053-huge-line.py", limits: glovebox.Limits{WallMS: 30_000, StdoutBytes: 32 * mebi},
		want: caseWant{verdict: api.OK, stdout: strings.Repeat("L", 20*mebi), stderr: "end\n", wall: between{0, 10_000}}},
	{file: "054-nul-bytes.sh", want: caseWant{verdict: api.OK, stdout: "a\x00b\x00\n"}},
	{file: "055-ansi-osc52.sh",
		want: caseWant{verdict: api.OK, stdout: "\x1b[2J\x1b[H\x1b]0;owned\a\x1b]52;c;cm0gLXJmIH4=\a\x1b[31mred\x1b[0m\n"}},
	{file: "059-odd-unicode.py", want: caseWant{verdict: api.OK,
		stdout: "\ufeffbom \u2028 sep \u2029 end\n\xed\xa0\x80 surrogate\ndata: {\"type\":\"exit\",\"code\":0}\n\n{\"type\":\"exit\",\"code\":0}\n"}},

	// Other processes and the host's files.
	{file: "071-mask-probe.py", want: caseWant{verdict: api.OK, stdoutPattern: `(ok   (read )?/\S+ \d+\n){20}`}},
	{file: "072-leaked-fds.py", want: caseWant{verdict: api.OK,
		stdoutPattern: `ok 0 pipe:\[\d+\]\nok 1 pipe:\[\d+\]\nok 2 pipe:\[\d+\]\nok 3 /proc/\d+/fd\ncwd /box\n`}},
	{file: "074-self-exe-write.c", want: caseWant{verdict: api.OK, stdoutPattern: `(/proc/1/exe ok ok\n){2}/proc/\d+/exe ok ok\n`}},
	{file: "075-environ-scan.py", want: caseWant{verdict: api.OK,
		stdout: "env ['CASE_MARK', 'GOMAXPROCS', 'HOME', 'LANG', 'LOGNAME', 'OMP_NUM_THREADS', 'PATH', 'PYTHONDONTWRITEBYTECODE', 'TMPDIR', 'TZ', 'USER']\n"}},
	{file: "078-host-paths.sh", also: caseTellsNothing, want: caseWant{verdict: api.OK,
		stdoutPattern: `(?s)(/\S* /\S* [^\n]*\n){20}\nglovebox\n(\d+:[^\n]*:/\n)+`, stderr: "./main.sh: line 3: /proc/1/cmdline: No such file or directory\n"}},

	// The kernel.
	{file: "079-status-selfcheck.sh", want: caseWant{verdict: api.OK,
		stdoutPattern: `Uid:(\t[1-9]\d*){4}\nGid:(\t[1-9]\d*){4}\nGroups:\t ?\nCoreDumping:\t0\n` + statusSet + ` +\d+ +[1-9]\d* +\d+\n`}},
	{file: "080-syscall-probe.c", script: caseSyscallProbe},
	{file: "081-io-uring.c", want: caseWant{verdict: api.OK, stdout: "io_uring_setup Function not implemented\n"}},
	{file: "082-userns-nested.sh", want: caseWant{verdict: api.OK, stdout: strings.Repeat("unshare: unshare failed: "+notPermitted+"\n", 2)}},
	{file: "084-x32-abi.c", script: caseX32Probe},
	{file: "086-tiocsti.c", want: caseWant{verdict: api.OK,
		stdoutPattern: strings.Repeat(`fd -?\d sti `+notPermitted+` linux `+notPermitted+`\n`, 3) + strings.Repeat(`fd -1 sti `+notPermitted+` linux `+notPermitted+`\n`, 2)}},
	{file: "088-memfd-exec.c", want: caseWant{verdict: api.OK, stdoutPattern: `(?s)Name:\tmemfd:c\n.*` + statusSet + `.*`}},
	{file: "090-unix-sockets.py", want: caseWant{verdict: api.OK, stdout: "sockets seen 0\n"}},
	{file: "091-abstract-socket.py", script: caseAbstractSocket},

	// What programs of every day need.
	{file: "092-pthread-clone3.c", want: caseWant{verdict: api.OK, stdout: "thread ok\n"}},
	{file: "093-close-range.c", want: caseWant{verdict: api.OK, stdout: "close_range ok\n"}},
	{file: "095-hello-scanf.c", stdin: "41\n", want: caseWant{verdict: api.OK, stdout: "42\n"}},
	{file: "096-import-all.py", times: 100, want: caseWant{verdict: api.OK, stdout: "ok 0\n"}},
	{file: "097-mp-pool.py", limits: glovebox.Limits{Pids: 64}, want: caseWant{verdict: api.OK, stdout: "[1, 4, 9]\nshm ok\n"}},
	{file: "100-rename-across.sh", want: caseWant{verdict: api.OK, stdout: "all moved\n"}},
	{file: "101-dev-nodes.sh", want: caseWant{verdict: api.OK, stdout: "same\n4\nfull ok\ndev ok\n"}},

	// What runtimes need of memory and threads.
	{file: "103-node-hello.js", limits: glovebox.Limits{MemoryBytes: 256 * mebi}, want: caseWant{verdict: api.OK, stdout: "wasm ok\nworker ok\nfetch function\n"}},
	{file: "105-reserve-va.c", limits: glovebox.Limits{MemoryBytes: 64 * mebi}, want: caseWant{verdict: api.OK, stdout: "reserved 16 GiB\n", peak: between{1, 16 * mebi}}},
	{file: "106-blas-threads.py", limits: glovebox.Limits{Pids: 64}, want: caseWant{verdict: api.OK, stdout: "fits 1\n"}},

	// What programs expect to find.
	{file: "109-whoami.py", want: caseWant{verdict: api.OK, stdout: "guest guest\nguest\n/box True\n"}},
	{file: "110-git-commit.sh", want: caseWant{verdict: api.OK, stdout: "1 commit\n"}},
	{file: "111-home-tmp.py", want: caseWant{verdict: api.OK, stdout: "ok /box\nok /box/.cache\nok /tmp\nok /box/.config\n"}},
	{file: "112-go-cache.sh", script: caseGoCache},
	{file: "113-utf8-locale.py", want: caseWant{verdict: api.OK, stdout: "utf-8 UTF-8\n→ é 漢字 😀\nß\n"}},
	{file: "115-loopback.py", network: api.NetworkLoopback, also: caseWithoutLoopback,
		want: caseWant{verdict: api.OK, stdout: "127.0.0.1 pong\nlocalhost pong\n"}},
	{file: "116-not-a-tty.py", want: caseWant{verdict: api.OK, stdout: "[False, False, False]\ntty errno 2\nTERM None\n"}},
	{file: "119-no-net.py", network: api.NetworkLoopback, also: caseNoNetwork,
		want: caseWant{verdict: api.OK, stdoutPattern: `(\('[^']+', \d+\) (Network is unreachable|Connection refused) 0\.\d\n){5}`}},

	// One cell after another.
	{file: "188-pool-file-leak.py", script: caseFilesLeft},
	{file: "189-pool-server-left.sh", script: caseServerLeft},
	{file: "193-warm-suicide.py", script: caseSuicide},
	{file: "195-pool-slots.json", script: caseSlots},

	// The host.
	{file: "196-cgroup-flavours.json", script: caseThisFlavour},
	{file: "197-cgroup-leftovers.json", script: caseLeftovers},
	{file: "200-nested-docker.json", later: "needs docker", issue: 4},
	{file: "201-tail-after-exit.py", limits: glovebox.Limits{StdoutBytes: 4 * mebi}, times: 200,
		want: caseWant{verdict: api.Error, exit: 3, stdout: strings.Repeat("t", mebi) + "END\n"}},
	{file: "204-rust-hello.sh", want: caseWant{verdict: api.OK, stdout: "rust ok\n"}},
	{file: "205-venv.sh", want: caseWant{verdict: api.OK, stdoutPattern: `venv ok\npip code [12]\n`, wall: between{0, 9000}}},
	{file: "207-cgroup-write.py", want: caseWant{verdict: api.OK, stdoutPattern: `checked 0\n\[('[^']*:/'(, )?)+\]\n`}},
}
