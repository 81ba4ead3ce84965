package cellinit

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func init() {
	if os.Getenv("GLOVEBOX_TEST_FILES") != "" {
		os.Exit(execAboveNumbers(os.Getenv("GLOVEBOX_TEST_FILES") == "moved"))
	}
}

// execAboveNumbers executes what lies at fdInit with descriptors right below it,
// and answers 0 if that was the program.
func execAboveNumbers(moved bool) int {
	program, err := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil || unix.Dup3(program, fdInit, unix.O_CLOEXEC) != nil {
		return 3
	}
	var fds []int
	for n := fdInit - 4; n < fdInit; n++ {
		if unix.Dup3(0, n, unix.O_CLOEXEC) != nil {
			return 4
		}
		fds = append(fds, n)
	}
	files := []uintptr{0, 0, 0, uintptr(fds[0]), uintptr(fds[1]), uintptr(fds[2]), uintptr(fds[3])}
	if moved {
		if files, _, err = initFiles(0, fds); err != nil {
			return 5
		}
	}
	pid, err := syscall.ForkExec("/proc/self/fd/100", []string{"true", "-test.run=^$"}, &syscall.ProcAttr{Files: files, Env: []string{}})
	if err != nil {
		return 6
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, 0, nil); err != nil || ws.ExitStatus() != 0 {
		return 7
	}
	return 0
}

// Descriptors whose numbers come to lie right below that of init's program do not
// take its place. The control: as they are, they do.
func TestInitStaysInPlace(t *testing.T) {
	for mode, want := range map[string]int{"moved": 0, "as they are": 6} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), "GLOVEBOX_TEST_FILES="+mode)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: %d, not %d", mode, got, want)
		}
	}
}
