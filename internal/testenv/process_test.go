package testenv

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process, its child and its time are found while it lives; its end is noticed,
// and what is reaped is found no more.
func TestProcess(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "read a; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo; sleep 100 & read b")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	fd := OpenProcess(t, pid)
	before, err := CPUTime(pid)
	if fd < 0 || err != nil || !slices.Contains(Children(os.Getpid()), pid) || EndsWithin(fd, 10*time.Millisecond) {
		t.Fatalf("pidfd %d, %v, children %v", fd, err, Children(os.Getpid()))
	}
	in.Write([]byte("\n"))
	out.Read(make([]byte, 1))
	if after, err := CPUTime(pid); err != nil || after <= before {
		t.Errorf("processor time %v, then %v: %v", before, after, err)
	}
	for len(Children(pid)) == 0 {
		<-time.After(time.Millisecond) // the shell has written before it forks
	}
	child := OpenProcess(t, Children(pid)[0])
	if got := Descendants(os.Getpid()); !slices.Contains(got, pid) || len(Children(pid)) != 1 || !slices.Contains(got, Children(pid)[0]) {
		t.Errorf("descendants %v", got)
	}
	if Parent(Children(pid)[0]) != pid || Parent(pid) != os.Getpid() {
		t.Errorf("parents %d and %d", Parent(Children(pid)[0]), Parent(pid))
	}
	held := HoldDescendant(Children(pid)[0])
	if held < 0 || HoldDescendant(os.Getppid()) >= 0 || HoldDescendant(1) >= 0 {
		t.Error("a child is not held, or a stranger is")
	}
	unix.Close(held)
	in.Write([]byte("\n"))
	if !EndsWithin(fd, 10*time.Second) {
		t.Error("the end is not noticed")
	}
	if err := unix.PidfdSendSignal(child, unix.SIGKILL, nil, 0); err != nil || !EndsWithin(child, 10*time.Second) {
		t.Error(err)
	}
	_ = cmd.Wait()
	if _, err := CPUTime(pid); err == nil || OpenProcess(t, pid) >= 0 || HoldDescendant(pid) >= 0 || Parent(pid) != 0 || slices.Contains(Children(os.Getpid()), pid) {
		t.Errorf("after its end: %v", err)
	}
}
