// Command asuser runs a command as an ordinary user who has delegated control
// groups, the way a desktop session or a systemd unit with Delegate=yes has
// them. It needs root, and changes nothing on the host that it does not take
// back: the user is a bare number, the groups lie below the own ones in a parent
// named "glovebox", home and temporary directory are made for the run.
//
//	asuser [-uid N] [-gid N] [-copy] [-env K=V]… COMMAND [ARG]…
//
// The command is inside its groups from its birth: no running process is ever
// moved. Whatever of it is left when it ends is killed, the groups and files are
// removed, and its exit status is passed on (128 + n for a signal, 125 for a
// failure of asuser itself).
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// failed is the exit status of asuser's own failures.
const failed = 125

// The main goroutine stays on the main thread, so that the goroutine which
// enters the groups can never be there: the kernel judges a process's memory by
// its main thread, and an out-of-memory kill would take asuser.
func init() { runtime.LockOSThread() }

func main() { os.Exit(run(os.Args[1:])) }

// job is what the command line asks for.
type job struct {
	uid, gid int
	copy     bool
	env      []string
	argv     []string
	v2       bool
}

func parse(args []string) (*job, error) {
	j := &job{}
	flags := flag.NewFlagSet("asuser", flag.ContinueOnError)
	flags.IntVar(&j.uid, "uid", 64901, "user `id`; needs no entry in /etc/passwd")
	flags.IntVar(&j.gid, "gid", 64901, "group `id`; the user is in no other group")
	flags.BoolVar(&j.copy, "copy", false, "run a copy of the command, for one that lies where the user cannot go")
	flags.BoolVar(&j.v2, "v2", false, "use the cgroup v2 hierarchy even if it has no controller")
	flags.Func("env", "set `K=V` in the command's environment", func(s string) error {
		if !strings.Contains(s, "=") {
			return errors.New("want K=V")
		}
		j.env = append(j.env, s)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	j.argv = flags.Args()
	switch {
	case len(j.argv) == 0:
		return nil, errors.New("no command")
	case j.uid <= 0 || j.gid <= 0:
		return nil, errors.New("an ordinary user's ids are above 0")
	case os.Geteuid() != 0:
		return nil, errors.New("only root can become another user")
	}
	return j, nil
}

func run(args []string) int {
	j, err := parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "asuser:", err)
		return failed
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code, err := j.run(signals)
	if err != nil {
		fmt.Fprintln(os.Stderr, "asuser:", err)
		return failed
	}
	return code
}

// run makes everything, runs the command and takes everything back.
func (j *job) run(signals <-chan os.Signal) (code int, err error) {
	dir, err := j.makeDirs()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	groups, err := makeGroups(j.uid, j.gid, j.v2)
	defer func() { err = errors.Join(err, groups.remove()) }()
	if err != nil {
		return 0, err
	}
	cmd, err := j.command(dir)
	if err != nil {
		return 0, err
	}
	if groups.fd != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(groups.fd.Fd())
	}
	started, ended := make(chan error, 1), make(chan error, 1)
	go start(cmd, groups, started, ended)
	if err := <-started; err != nil {
		return 0, err
	}
	for asked := 0; ; {
		select {
		case err := <-ended:
			return status(err)
		case s := <-signals:
			if asked++; asked == 1 {
				_ = cmd.Process.Signal(s) // it may have ended just now
			} else {
				_ = cmd.Process.Kill()
			}
		}
	}
}

// start runs the command from a thread of its own, which enters the v1 groups
// and takes the command's process into them by forking it. The thread is never
// given back: it ends with the goroutine, and so leaves the groups.
func start(cmd *exec.Cmd, groups *groups, started, ended chan<- error) {
	runtime.LockOSThread()
	err := groups.enter()
	if err == nil {
		err = cmd.Start()
	}
	started <- err
	if err == nil {
		ended <- cmd.Wait() // the thread stays: the command's parent-death signal hangs on it
	}
}

// status is the exit status that stands for how a command ended.
func status(err error) (int, error) {
	var exit *exec.ExitError
	if err == nil {
		return 0, nil
	}
	if !errors.As(err, &exit) {
		return 0, err
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// makeDirs makes the user's directory with home, tmp and bin.
func (j *job) makeDirs() (string, error) {
	dir, err := os.MkdirTemp("", "glovebox-user-")
	if err != nil {
		return "", err
	}
	err = os.Chmod(dir, 0o755)
	for _, sub := range []string{"home", "tmp"} {
		name := filepath.Join(dir, sub)
		err = errors.Join(err, os.Mkdir(name, 0o700), os.Chown(name, j.uid, j.gid))
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

func (j *job) command(dir string) (*exec.Cmd, error) {
	program, err := exec.LookPath(j.argv[0])
	if err != nil {
		return nil, err
	}
	if j.copy {
		// The name is kept: programs look at it.
		copied := filepath.Join(dir, filepath.Base(program))
		if err := copyProgram(copied, program); err != nil {
			return nil, err
		}
		program = copied
	}
	cmd := exec.Command(program, j.argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = j.environ(dir)
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(j.uid), Gid: uint32(j.gid)}, // with no other group
		Pdeathsig:  syscall.SIGKILL,
	}
	return cmd, nil
}

// environ is the own environment without what belongs to root.
func (j *job) environ(dir string) []string {
	drop := []string{"HOME", "TMPDIR", "USER", "LOGNAME", "MAIL", "GOCACHE", "GOMODCACHE", "GOPATH", "GOROOT", "GOTMPDIR", "GOENV"} // the root of a toolchain in another user's folder is not for this one
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(drop, name) || strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "SUDO_")
	})
	env = append(env, "HOME="+filepath.Join(dir, "home"), "TMPDIR="+filepath.Join(dir, "tmp"))
	return append(env, j.env...)
}

func copyProgram(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Close())
}
