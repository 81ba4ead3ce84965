package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// exitStatus is the exit status for a result, as the contract fixes it.
func exitStatus(r *glovebox.Result) int {
	switch r.Verdict {
	case api.MemoryLimit:
		return exitMemory
	case api.OutputLimit:
		return exitOutput
	case api.Denied:
		return exitDenied
	case api.CompileError:
		return exitCompile
	case api.Timeout:
		return exitTimeout
	case api.Canceled:
		return exitInterrupted
	case api.OK:
		return 0
	case api.Error:
		if r.ExitCode != nil {
			return *r.ExitCode
		}
		if n := signalNumber(r.Signal); n != 0 {
			return exitSignal + n
		}
	}
	return exitFailed
}

// signalNumber is the number behind a signal's name in a result, 0 for none:
// that of signal(7), "SIGRTMIN+n", or "SIG" and the number.
func signalNumber(name string) int {
	if n := unix.SignalNum(name); n != 0 {
		return int(n)
	}
	first, text := 0, strings.TrimPrefix(name, "SIG")
	if after, ok := strings.CutPrefix(name, "SIGRTMIN"); ok {
		first, text = 34, cmp.Or(strings.TrimPrefix(after, "+"), "0")
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 0 && first+n <= 64 {
		return first + n
	}
	return 0
}

// sentence tells a person how a run ended, under the limits l.
func sentence(r *glovebox.Result, l glovebox.Limits) string {
	s := string(r.Verdict)
	switch r.Verdict {
	case api.OK:
		return s + " after " + duration.format(int64(r.WallMS+0.5), " ") + use(r, l)
	case api.Error:
		return s + ": " + ended(r) + " after " + duration.format(int64(r.WallMS+0.5), " ") + use(r, l)
	case api.Timeout:
		if r.Cause == api.CauseCPU {
			return s + ": processor time limit of " + duration.format(l.CPUMS, " ") + forks(r, l)
		}
		return s + ": wall limit of " + duration.format(l.WallMS, " ") + forks(r, l)
	case api.MemoryLimit:
		return s + ": " + kills(r) + " at the limit of " + size.format(l.MemoryBytes, " ")
	case api.OutputLimit:
		limit := l.StdoutBytes
		if r.Cause == api.CauseStderr {
			limit = l.StderrBytes
		}
		return s + ": more than " + size.format(limit, " ") + " on " + r.Cause
	case api.Denied:
		by := ""
		if c := r.Compile; c != nil && c.ExitCode == nil { // it never came to the program
			by = " of the compiler"
		}
		return s + ": system call " + r.Syscall + by
	case api.CompileError:
		return s + ": " + inFlags(cmp.Or(r.Message, "the compiler refused the program")) + compilerLimit(r, l)
	case api.Canceled:
		return s + ": interrupted"
	case api.SetupFailed:
		return join(s, r.Stage, strings.TrimPrefix(r.Message, r.Stage+": "))
	}
	return join(s, r.Message)
}

// compilerLimit is the limit at which the compiler ended, if it did.
func compilerLimit(r *glovebox.Result, l glovebox.Limits) string {
	if l.Compile == nil {
		return ""
	}
	at := map[string]string{
		api.CauseWall: duration.format(l.Compile.WallMS, " "), api.CauseCPU: duration.format(l.Compile.CPUMS, " "),
		api.CauseMemory: size.format(l.Compile.MemoryBytes, " "),
		api.CauseStdout: size.format(l.Compile.StdoutBytes, " "), api.CauseStderr: size.format(l.Compile.StderrBytes, " "),
	}[r.Cause]
	if at == "" {
		return ""
	}
	return ", at its limit of " + at
}

// join puts what is not empty behind one another.
func join(parts ...string) string {
	var have []string
	for _, p := range parts {
		if p != "" {
			have = append(have, p)
		}
	}
	return strings.Join(have, ": ")
}

// ended says how the program itself ended.
func ended(r *glovebox.Result) string {
	switch {
	case r.Signal != "":
		return "ended by " + r.Signal
	case r.ExitCode == nil:
		return "ended in an unknown way"
	case *r.ExitCode == 126:
		return "exit status 126 (what cannot be executed gives that)"
	case *r.ExitCode == 127:
		return "exit status 127 (a command that is not found gives that)"
	}
	return fmt.Sprintf("exit status %d", *r.ExitCode)
}

func kills(r *glovebox.Result) string {
	switch {
	case r.OOMKills == nil || *r.OOMKills == 0:
		return "stopped"
	case *r.OOMKills == 1:
		return "the kernel killed 1 process"
	}
	return fmt.Sprintf("the kernel killed %d processes", *r.OOMKills)
}

// use is what the program took, as far as the kernel can tell.
func use(r *glovebox.Result, l glovebox.Limits) string {
	var parts []string
	if r.CPUMS != nil {
		parts = append(parts, fmt.Sprintf("%.0f ms of processor time", *r.CPUMS))
	}
	if r.PeakBytes != nil {
		parts = append(parts, fmt.Sprintf("%.1f MiB of memory at most", float64(*r.PeakBytes)/(1<<20)))
	}
	s := ""
	if len(parts) > 0 {
		s = " (" + strings.Join(parts, ", ") + ")"
	}
	return s + forks(r, l)
}

// forks tells of refused forks, which a program may have hidden.
func forks(r *glovebox.Result, l glovebox.Limits) string {
	if r.PidsMaxHits == nil || *r.PidsMaxHits == 0 {
		return ""
	}
	return fmt.Sprintf("; the limit of %d processes was reached", l.Pids)
}
