package seccomp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// offsetName names a word of struct seccomp_data.
func offsetName(off uint32) string {
	switch {
	case off == offNumber:
		return "nr"
	case off == offArch:
		return "arch"
	case off >= offArgs && off < offArgs+48:
		return fmt.Sprintf("arg%d.%s", (off-offArgs)/8, []string{"low", "high"}[(off-offArgs)/4%2])
	}
	return fmt.Sprintf("[%d]", off)
}

// loaded tells what the accumulator holds before each instruction: the word loaded last on every way there, or
// "" where the ways differ. Jumps only lead forward, so one pass suffices.
func loaded(prog []unix.SockFilter) []string {
	in := make([]string, len(prog)+256)
	seen := make([]bool, len(in))
	flow := func(to int, what string) {
		if seen[to] && in[to] != what {
			what = ""
		}
		in[to], seen[to] = what, true
	}
	for i, x := range prog {
		switch x.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			flow(i+1, offsetName(x.K))
		case unix.BPF_RET | unix.BPF_K:
		case unix.BPF_JMP | unix.BPF_JA:
			flow(i+1+int(x.K), in[i])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			flow(i+1, in[i])
		default:
			flow(i+1+int(x.Jt), in[i])
			flow(i+1+int(x.Jf), in[i])
		}
	}
	return in[:len(prog)]
}

var mnemonics = map[uint16]string{
	unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K: "jeq", unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K: "jge",
	unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K: "jgt", unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K: "jset",
}

// disassemble writes a program, one instruction a line, with absolute targets and, beside a comparison of the
// number, the name of the call.
func disassemble(a Arch, prog []unix.SockFilter) string {
	var b strings.Builder
	in := loaded(prog)
	for i, x := range prog {
		text := ""
		switch x.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			text = "ld " + offsetName(x.K)
		case unix.BPF_RET | unix.BPF_K:
			text = "ret " + spoken(x.K)
		case unix.BPF_JMP | unix.BPF_JA:
			text = fmt.Sprintf("ja %d", i+1+int(x.K))
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			text = fmt.Sprintf("and %#x", x.K)
		default:
			text = fmt.Sprintf("%s %s %#x, yes %d, no %d", mnemonics[x.Code], in[i], x.K, i+1+int(x.Jt), i+1+int(x.Jf))
			if in[i] == "nr" && x.K < 1024 {
				text += "  # " + Name(a, int(x.K))
			}
		}
		fmt.Fprintf(&b, "%4d  %s\n", i, strings.TrimRight(text, " #"))
	}
	return b.String()
}

// The compiled program of every profile and architecture is, instruction by instruction, the one in the
// checked-in file: whatever changes it is seen in a diff.
//
// proves part of T-08
func TestGoldenDisassembly(t *testing.T) {
	for _, v := range profiles(t) {
		t.Run(v.name, func(t *testing.T) {
			prog, err := v.policy.Compile(v.arch, v.notify)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, "disassembly/"+v.name+".txt", disassemble(v.arch, prog))
		})
	}
}

// Each instruction of every program is one that the disassembly has a word for, jumps forward within the
// program, and is reached; the last is a return.
func TestDisassemblyIsWhole(t *testing.T) {
	known := []uint16{unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_RET | unix.BPF_K, unix.BPF_JMP | unix.BPF_JA,
		unix.BPF_ALU | unix.BPF_AND | unix.BPF_K}
	for code := range mnemonics {
		known = append(known, code)
	}
	for _, v := range profiles(t) {
		prog, err := v.policy.Compile(v.arch, v.notify)
		if err != nil {
			t.Fatal(err)
		}
		reached := make([]bool, len(prog)+300)
		reached[0] = true
		for i, x := range prog {
			if !slices.Contains(known, x.Code) {
				t.Errorf("%s: instruction %d has code %#x", v.name, i, x.Code)
			}
			if !reached[i] {
				t.Errorf("%s: nothing leads to instruction %d", v.name, i)
			}
			switch {
			case x.Code == unix.BPF_RET|unix.BPF_K:
			case x.Code == unix.BPF_JMP|unix.BPF_JA:
				reached[i+1+int(x.K)] = true
			case x.Code&7 == unix.BPF_JMP:
				reached[i+1+int(x.Jt)], reached[i+1+int(x.Jf)] = true, true
			default:
				reached[i+1] = true
			}
		}
		if slices.Contains(reached[len(prog):], true) || prog[len(prog)-1].Code != unix.BPF_RET|unix.BPF_K {
			t.Errorf("%s: the program runs past its end", v.name)
		}
	}
}
