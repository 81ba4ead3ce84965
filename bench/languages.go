package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/languages"
)

// hellos measures the smoke program of each language that is installed: the very
// argvs of its file, plainly and in cells that are armed where they can be.
func hellos() error {
	o := options(2, 2)
	o.CacheDir = *cacheDir
	b, err := glovebox.New(o)
	if err != nil {
		return err
	}
	defer b.Close()
	fmt.Printf("\nhello in each language, medians in ms (%d rounds); plain is fork + exec of the same argv\n", *rounds/8)
	fmt.Printf("%-8s %10s %10s %10s %10s %10s %10s %10s\n", "", "compile", "run", "compile", "run", "whole", "more than", "ratio")
	fmt.Printf("%-8s %10s %10s %10s %10s %10s %10s %10s\n", "", "plain", "plain", "in a cell", "in a cell", "call", "plain", "")
	for _, l := range languages.Builtin() {
		if _, missing := l.Program(); missing != "" {
			fmt.Printf("%-8s not installed\n", l.Name)
			continue
		}
		if err := helloIn(b, l); err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
	}
	return nil
}

// helloIn measures one language. A round is a plain compilation, a plain run and
// a call of the library, in turn.
func helloIn(b *glovebox.Box, l *languages.Language) error {
	compile, run, err := plainly(l)
	if err != nil {
		return err
	}
	cell := &subject{name: "cell"}
	made, ran := &subject{}, &subject{}
	cell.once = func() error {
		r, err := b.Run(context.Background(), glovebox.Program{Language: l.Name, Source: l.Smoke.Source})
		if err != nil || r.Verdict != api.OK {
			return fmt.Errorf("%w %+v", err, r)
		}
		if r.Compile != nil {
			made.took = append(made.took, duration(r.Compile.WallMS))
		}
		ran.took = append(ran.took, duration(r.WallMS))
		return nil
	}
	subjects := []*subject{run, cell}
	if len(l.Compile) > 0 {
		subjects = []*subject{compile, run, cell}
	}
	if err := cell.once(); err != nil { // what is read once is read
		return err
	}
	if err := interleave(max(*rounds/8, 5), subjects...); err != nil {
		return err
	}
	plain := run.median()
	compiled, inCell := "", ""
	if len(l.Compile) > 0 {
		plain += compile.median()
		compiled, inCell = fmt.Sprintf("%.2f", ms(compile.median())), fmt.Sprintf("%.2f", ms(made.median()))
	}
	fmt.Printf("%-8s %10s %10.2f %10s %10.2f %10.2f %10.2f %9.2fx\n", l.Name, compiled, ms(run.median()), inCell, ms(ran.median()),
		ms(cell.median()), ms(cell.median()-plain), float64(cell.median())/float64(plain))
	return nil
}

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// plainly prepares the smoke program of a language outside of any cell.
func plainly(l *languages.Language) (compile, run *subject, err error) {
	dir, err := os.MkdirTemp("", "glovebox-bench-")
	if err != nil {
		return nil, nil, err
	}
	out := filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, l.File), []byte(l.Smoke.Source), 0o644); err != nil {
		return nil, nil, err
	}
	program, _ := l.Program()
	places := languages.Places{Program: program, Entry: l.File, Sources: []string{l.File}, Out: out,
		Stem: l.File[:len(l.File)-len(filepath.Ext(l.File))], Memory: 256 << 20, CPUs: 1}
	start := func(argv []string, env map[string]string) func() error {
		return func() error {
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "LANG=C.UTF-8"}
			for k, v := range env {
				cmd.Env = append(cmd.Env, k+"="+places.Text(v))
			}
			if text, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, text)
			}
			return nil
		}
	}
	run = &subject{name: "run", once: start(places.Fill(l.Run), l.Env)}
	if len(l.Compile) > 0 {
		compile = &subject{name: "compile", once: start(places.Fill(l.Compile), l.CompileEnv)}
		if err := compile.once(); err != nil { // its caches are warm, as a cell's are
			return nil, nil, err
		}
	}
	return compile, run, nil
}

// artifacts measures what it costs to get a file of 10 MB back, beside a peer
// whose folder of the host the program writes to.
func artifacts() error {
	b, err := glovebox.New(options(2, 2))
	if err != nil {
		return err
	}
	defer b.Close()
	dir, err := os.MkdirTemp("", "glovebox-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	write := "head -c 10000000 /dev/urandom >file"
	without := glovebox.Program{Command: []string{"/bin/sh", "-c", write}}
	with := without
	with.Artifacts = []string{"file"}
	peer := &subject{name: "bubblewrap, a shared folder, read", once: func() error {
		args := []string{"--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
			"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--bind", dir, "/box", "--chdir", "/box", "/bin/sh", "-c", write}
		if err := exec.Command("bwrap", args...).Run(); err != nil {
			return err
		}
		_, err := os.ReadFile(filepath.Join(dir, "file"))
		return err
	}}
	bare := &subject{name: "armed cell, nothing asked for", once: in(b, without)}
	back := &subject{name: "armed cell, 10 MB asked for", once: in(b, with)}
	if err := interleave(max(*rounds/4, 10), peer, bare, back); err != nil {
		return err
	}
	table("a file of 10 MB, ratio to bubblewrap", peer, peer, bare, back)
	return nil
}
