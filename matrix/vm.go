//go:build linux

package matrix

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/matrix/job"
)

// Command is one program to run in a machine.
type Command = job.Command

// Output is what became of a command.
type Output struct {
	// ExitCode is the program's own, 128+N when signal N ended it, and -1
	// when it did not start or its end was not seen.
	ExitCode int
	Signal   string // name of the signal that ended it
	TimedOut bool   // its Timeout ended it
	Stdout   []byte
	Stderr   []byte
	Cut      bool   // output beyond the guest's bound was dropped
	Err      string // why it did not start
	Duration time.Duration
	// Console is what the whole machine wrote on its console.
	Console string
}

// VM describes a machine. The zero value but for Kernel and Files boots with
// cgroup v2, two processors and enough memory for the files.
type VM struct {
	Kernel   Kernel
	MemoryMB int      // 0: 512 and three times the size of the files
	CPUs     int      // 0: 2
	Cgroup   string   // "v2" (also when empty), "v1", "hybrid" or "none"
	Cmdline  []string // kernel arguments, such as "lsm=apparmor" for no Landlock
	Swap     bool     // a compressed swap device in memory
	Modules  []string // kernel modules to load, and what they need
	Files    *Tree

	ProcOptions string            // mount options of /proc, such as "hidepid=2"
	Sysctls     map[string]string // such as "user.max_user_namespaces": "0"

	// Boot bounds the time until the guest answers; 0 is a minute.
	Boot time.Duration
	// Live, when set, gets what commands write as it comes.
	Live func(command int, stderr bool, data []byte)
	// Verbose makes the kernel write all its messages on the console.
	Verbose bool
}

// swapMB is the size of the swap device.
const swapMB = 256

// Run boots the machine, runs the commands one after another and powers it
// off. It bounds the whole by the Boot time and the commands' own timeouts.
//
// An error means that the machine did not get through all commands; it holds
// the end of the console. The outputs are there in any case, as far as they
// came, one for each command.
func (vm VM) Run(ctx context.Context, commands []Command) ([]Output, error) {
	outputs := make([]Output, len(commands))
	for i := range outputs {
		outputs[i].ExitCode = -1
	}
	if len(commands) == 0 {
		return nil, errors.New("there is no command to run")
	}
	if vm.Boot <= 0 {
		vm.Boot = time.Minute
	}
	dir, err := os.MkdirTemp("", "glovebox-matrix-")
	if err != nil {
		return outputs, err
	}
	defer os.RemoveAll(dir)
	initrd := filepath.Join(dir, "initrd.gz")
	if err := vm.pack(ctx, initrd, commands); err != nil {
		return outputs, fmt.Errorf("initramfs for kernel %s: %w", vm.Kernel.Name, err)
	}
	limit := vm.Boot + 10*time.Second
	for _, c := range commands {
		limit += c.Limit() + 2*time.Second
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the machine did not end in %v", limit))
	defer cancel()
	console, err := vm.boot(ctx, initrd, func(r io.Reader, booted func()) error {
		return vm.collect(r, outputs, booted)
	})
	for i := range outputs {
		outputs[i].Console = console
	}
	if err != nil {
		return outputs, fmt.Errorf("kernel %s: %w\nconsole:\n%s", vm.Kernel.Name, err, tail(console, 4096))
	}
	return outputs, nil
}

// collect fills outputs from the frames of a machine. It calls booted at the
// first one, which must come from the kernel that was asked for, and fails
// unless the last one says that all is done.
func (vm VM) collect(r io.Reader, outputs []Output, booted func()) error {
	frames := job.NewReader(r)
	var notes []string
	for {
		f, err := frames.Read()
		if err == io.EOF {
			return errors.New(strings.Join(append([]string{"the machine ended before it was done"}, notes...), ": "))
		}
		if err != nil {
			return err
		}
		if f.Seq == 0 {
			booted()
			if f.Kind != job.Hello || f.Text != vm.Kernel.Release {
				return fmt.Errorf("the guest began with %s %q instead of release %s", f.Kind, f.Text, vm.Kernel.Release)
			}
		}
		if f.Command < 0 || f.Command >= len(outputs) {
			return fmt.Errorf("a frame speaks of command %d", f.Command)
		}
		out := &outputs[f.Command]
		switch f.Kind {
		case job.Done:
			return nil
		case job.Note:
			notes = append(notes, f.Text)
		case job.Data:
			if vm.Live != nil {
				vm.Live(f.Command, f.Stderr, f.Data)
			}
			if f.Stderr {
				out.Stderr = append(out.Stderr, f.Data...)
			} else {
				out.Stdout = append(out.Stdout, f.Data...)
			}
		case job.Exit:
			out.ExitCode, out.Signal, out.TimedOut, out.Cut, out.Err = f.Code, f.Signal, f.TimedOut, f.Cut, f.Text
			out.Duration = time.Duration(f.Millis) * time.Millisecond
		}
	}
}

// pack writes the initramfs: the guest, the job, the modules and the files.
func (vm VM) pack(ctx context.Context, name string, commands []Command) error {
	guest, err := BuildStatic(ctx, guestPackage, vm.Kernel.Arch)
	if err != nil {
		return err
	}
	top := &Tree{files: map[string]entry{}}
	top.mkdir("/dev", 0o755)
	top.files["/dev/console"] = entry{mode: modeChar | 0o600, dev: [2]int{5, 1}}
	top.mkdir(job.Root, 0o755)
	if err := top.AddFile("/init", guest); err != nil {
		return err
	}
	set, err := newModuleSet(vm.Kernel, top)
	if err != nil {
		return err
	}
	j := job.Job{Port: vm.board().port, Cgroup: vm.Cgroup, ProcOptions: vm.ProcOptions, Sysctls: vm.Sysctls, Commands: commands}
	modules := slices.Clone(vm.Modules)
	if vm.Swap {
		j.SwapMB = swapMB
		modules = append(modules, "zram")
		if set.has("lzo-rle") { // older kernels compress with a module of their own
			modules = append(modules, "lzo-rle")
		}
	}
	for _, m := range modules {
		if err := set.add(ctx, m); err != nil {
			return err
		}
	}
	j.Modules = set.order
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	top.AddBytes(job.Path, text, 0o644)

	files := vm.Files
	if files == nil {
		files = NewTree()
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return err
	}
	c := newCPIOWriter(z)
	if err := errors.Join(top.writeTo(c, "/"), files.writeTo(c, job.Root), c.Close(), z.Close()); err != nil {
		return err
	}
	return f.Close()
}

// memoryMB is the size of the machine's memory.
func (vm VM) memoryMB() int {
	switch {
	case vm.MemoryMB > 0:
		return vm.MemoryMB
	case vm.Files == nil:
		return 512
	}
	return 512 + 3*int(vm.Files.Size()>>20)
}

// cmdline is the kernel's arguments.
func (vm VM) cmdline() string {
	args := []string{"console=" + vm.board().console, "panic=-1", "rdinit=/init", job.CmdlineMark, "random.trust_cpu=on", "random.trust_bootloader=on"}
	if vm.Verbose {
		args = append(args, "ignore_loglevel")
	} else {
		args = append(args, "quiet", "loglevel=4")
	}
	if vm.Swap {
		args = append(args, "swapaccount=1")
	}
	return strings.Join(append(args, vm.Cmdline...), " ")
}

// cpus is the number of processors as QEMU wants it.
func (vm VM) cpus() string {
	if vm.CPUs > 0 {
		return strconv.Itoa(vm.CPUs)
	}
	return "2"
}

// tail is the end of a console log without empty lines.
func tail(console string, n int) string {
	var b bytes.Buffer
	for line := range strings.Lines(console) {
		if strings.TrimSpace(line) != "" {
			b.WriteString("  " + strings.TrimRight(line, "\r\n") + "\n")
		}
	}
	text := b.String()
	if len(text) > n {
		text = "  ..." + text[len(text)-n:]
	}
	return text
}
