//go:build linux

// Command vm runs one program in a machine with an old or a new kernel
// and passes on what it prints and how it ends:
//
//	go run ./matrix/cmd/vm -kernel 5.10 -cgroup v1 -uid 1000 -- ./some.test -test.v
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/matrix"
)

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

// options are the flags.
type options struct {
	kernel, arch                string
	vm                          matrix.VM
	command                     matrix.Command
	files, binaries, env, sysct list
	args, modules               list
	console                     bool
	userland, packages          string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
	}
	os.Exit(code)
}

// parse reads the command line.
func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("vm", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "usage: vm [flags] -- PROGRAM [ARGUMENT...]\n\nPROGRAM is a file of this host; it goes to /opt with its shared libraries. The flags are:")
		f.PrintDefaults()
	}
	f.StringVar(&o.kernel, "kernel", "6.1", "`series` of the kernel: "+strings.Join(matrix.Names(), ", "))
	f.StringVar(&o.arch, "arch", "amd64", "`architecture`: "+strings.Join(matrix.Architectures(), ", "))
	f.StringVar(&o.vm.Cgroup, "cgroup", "v2", "control groups: v2, v1, hybrid or none")
	f.IntVar(&o.vm.MemoryMB, "memory", 0, "memory in `MiB`; 0 is 512 and three times the size of the files")
	f.IntVar(&o.vm.CPUs, "cpus", 2, "`number` of processors")
	f.BoolVar(&o.vm.Swap, "swap", false, "swap to a compressed device in memory")
	f.StringVar(&o.vm.ProcOptions, "proc", "", "mount `options` of /proc, such as hidepid=2")
	f.BoolVar(&o.vm.Verbose, "verbose", false, "kernel messages of every level on the console")
	f.BoolVar(&o.console, "console", false, "print the console at the end")
	f.Var(&o.args, "append", "kernel `argument`, such as lsm=apparmor for no Landlock (may be repeated)")
	f.Var(&o.modules, "module", "kernel `module` to load, such as overlay (may be repeated)")
	f.Var(&o.sysct, "sysctl", "`name=value` to set, such as user.max_user_namespaces=0 (may be repeated)")
	f.Var(&o.files, "add", "`src[:dst]` of a host file or folder to take along (may be repeated)")
	f.Var(&o.binaries, "bin", "host `program` to take along with its libraries (may be repeated)")
	f.StringVar(&o.userland, "userland", "", "Debian `release` to take the machine's programs from: "+strings.Join(matrix.Userlands(), ", "))
	f.StringVar(&o.packages, "packages", "", "`packages` of that release besides the shell and the usual tools, separated by commas")
	f.IntVar(&o.command.UID, "uid", 0, "`user` to run as")
	f.Var(&o.env, "env", "`NAME=value` in the environment (may be repeated)")
	f.StringVar(&o.command.Dir, "dir", "", "`folder` to run in; the user's home when empty")
	f.DurationVar(&o.command.Timeout, "timeout", 5*time.Minute, "`time` after which the program is ended")
	f.StringVar(&o.command.Cgroup, "group", "", "control `group` to start in, such as user.slice/app")
	f.StringVar(&o.command.Delegate, "delegate", "", "`group`, that one or above it, that the user owns")
	f.BoolVar(&o.command.NoSeccomp, "noseccomp", false, "seccomp is answered as by a kernel without it")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() == 0 {
		f.Usage()
		return o, flag.ErrHelp
	}
	o.command.Path, o.command.Args = f.Arg(0), f.Args()[1:]
	o.command.Env, o.vm.Cmdline, o.vm.Modules = o.env, o.args, o.modules
	o.vm.Sysctls = map[string]string{}
	for _, s := range o.sysct {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return o, fmt.Errorf("-sysctl %s has no value", s)
		}
		o.vm.Sysctls[name] = value
	}
	return o, nil
}

// run runs the program and returns the code to exit with: the program's own,
// 125 when the machine failed and 2 for a wrong command line.
func run(ctx context.Context, args []string) (int, error) {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 2, nil
	}
	if err != nil {
		return 2, err
	}
	if err := o.collect(ctx); err != nil {
		return 2, err
	}
	if o.vm.Kernel, err = matrix.Fetch(ctx, o.kernel, o.arch); err != nil {
		return 125, err
	}
	o.vm.Live = func(_ int, stderr bool, data []byte) {
		if stderr {
			os.Stderr.Write(data)
		} else {
			os.Stdout.Write(data)
		}
	}
	out, err := o.vm.Run(ctx, []matrix.Command{o.command})
	if err != nil {
		return 125, err
	}
	if o.console {
		fmt.Fprint(os.Stderr, out[0].Console)
	}
	switch {
	case out[0].Err != "":
		return 125, errors.New(out[0].Err)
	case out[0].TimedOut:
		return out[0].ExitCode, fmt.Errorf("ended after %v", o.command.Timeout)
	}
	return out[0].ExitCode, nil
}

// collect puts the program and what it needs into the machine.
func (o *options) collect(ctx context.Context) error {
	t := matrix.NewTree()
	o.vm.Files = t
	if o.userland != "" {
		extra := strings.FieldsFunc(o.packages, func(r rune) bool { return r == ',' })
		dir, err := matrix.FetchUserland(ctx, o.userland, o.arch, extra...)
		if err != nil {
			return err
		}
		if err := t.AddTree(dir, "/"); err != nil {
			return err
		}
	}
	if err := o.program(t); err != nil {
		return err
	}
	for _, b := range o.binaries {
		if err := t.AddBinaryWithLibs(b); err != nil {
			return err
		}
	}
	for _, s := range o.files {
		src, dst, ok := strings.Cut(s, ":")
		if !ok {
			dst = src
		}
		if err := add(t, src, dst); err != nil {
			return err
		}
	}
	return nil
}

// program puts the program itself into the machine. With a userland its
// libraries are those of the userland, and it may be a program from there.
func (o *options) program(t *matrix.Tree) error {
	host := o.command.Path
	if o.userland != "" && t.Has(host) {
		return nil
	}
	o.command.Path = "/opt/" + filepath.Base(host)
	if err := t.AddFile(o.command.Path, host); err != nil {
		return err
	}
	if o.userland != "" {
		return nil
	}
	return t.AddLibs(host)
}

// add puts a file, or a folder with the libraries that it needs, into t.
func add(t *matrix.Tree, src, dst string) error {
	info, err := os.Stat(src)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return t.AddTreeWithLibs(src, dst)
	}
	return t.AddFile(dst, src)
}
