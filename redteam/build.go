package redteam

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/languages"
)

// built is a program that is ready to run: the same bytes for the whole cell
// and for the control.
type built struct {
	files  []cell.File
	argv   []string
	beside *built
}

// build makes an attack ready. What is written in C is compiled once, by the
// product's own compiler in a whole cell.
func (r *runner) build(ctx context.Context, a *attack) (*built, error) {
	if a.source {
		return plain(a.files), nil
	}
	b, err := r.make(ctx, a.language, a.files)
	if err != nil || a.bystander == nil {
		return b, err
	}
	b.beside, err = r.make(ctx, languageOf(a.bystander.name), []file{{a.bystander.name, a.bystander.data}})
	return b, err
}

func (r *runner) make(ctx context.Context, language string, files []file) (*built, error) {
	entry := files[0].name
	b := plain(files)
	switch language {
	case "sh":
		b.argv = []string{"/bin/sh", "./" + entry}
		return b, nil
	case "python":
		program, _ := languages.Builtin().Find("python").Program()
		b.argv = []string{program, "./" + entry}
		return b, b.include("redteam.py")
	}
	b, err := sources(files)
	if err != nil {
		return nil, err
	}
	program, err := precompiledProgram(b.files)
	if program == nil && err == nil {
		program, err = r.compile(ctx, b.files, entry)
	}
	if err != nil {
		return nil, err
	}
	return &built{files: append(others(b.files), cell.File{Name: "prog", Mode: 0o755, Data: program}), argv: []string{"./prog"}}, nil
}

// plain are files as a cell takes them.
func plain(files []file) *built {
	b := &built{}
	for _, f := range files {
		b.files = append(b.files, cell.File{Name: f.name, Mode: 0o644, Data: f.data})
	}
	return b
}

// others are the files that are not the compiler's.
func others(files []cell.File) (out []cell.File) {
	for _, f := range files {
		if ext := path.Ext(f.Name); ext != ".c" && ext != ".h" {
			out = append(out, f)
		}
	}
	return out
}

// include adds a file that the attacks of a language share.
func (b *built) include(name string) error {
	data, err := battery.ReadFile("common/" + name)
	b.files = append(b.files, cell.File{Name: name, Mode: 0o644, Data: data})
	return err
}

// compile compiles a program in C in a whole cell, each once.
func (r *runner) compile(ctx context.Context, files []cell.File, entry string) ([]byte, error) {
	digest := sha256.New()
	fmt.Fprintf(digest, "%q\n", entry)
	for _, f := range files {
		fmt.Fprintf(digest, "%q %o %q\n", f.Name, f.Mode, f.Data)
	}
	sum := string(digest.Sum(nil))
	if known, ok := r.compiled.Load(sum); ok {
		return known.([]byte), nil
	}
	program, err := r.compileNow(ctx, files, entry)
	if err == nil {
		r.compiled.Store(sum, program)
	}
	return program, err
}

func (r *runner) compileNow(ctx context.Context, files []cell.File, entry string) ([]byte, error) {
	c := languages.Builtin().Find("c")
	program, _ := c.Program()
	job := &cell.Job{Profile: cell.CompileProfile, Files: files, Env: baseEnv, Artifacts: []string{"prog"}, Limits: api.DefaultCompileLimits(),
		Argv: []string{program, "-std=gnu17", "-O1", "-w", "-pipe", "-pthread", "-I.", "-o", "prog", "./" + entry, "-lrt"}}
	job.Limits.CPUPercent = 100
	res, err := r.whole.Run(ctx, job, cell.Streams{})
	if err != nil {
		return nil, err
	}
	if res.Verdict != api.OK || len(res.Artifacts) != 1 {
		return nil, fmt.Errorf("%s does not compile: %s %s %.500s", entry, ended(res), res.Message, res.Stderr)
	}
	return res.Artifacts[0].Content, nil
}

// bystander is a program that runs beside an attack, in another cell of the
// same host.
type bystander struct {
	in  *io.PipeWriter
	out chan struct{}
	res *api.Result
	err error
}

// beside starts the bystander and returns once it says "ready".
func (r *runner) beside(ctx context.Context, h *cell.Host, b *built, s *scene) (*bystander, error) {
	limits := api.DefaultLimits()
	limits.OpenFiles, limits.WallMS, limits.CPUMS = 4096, wallMS, cpuMS
	job := &cell.Job{Profile: cell.DefaultProfile, Files: b.beside.files, Argv: b.beside.argv, Env: baseEnv, Limits: limits}
	in, w := io.Pipe()
	by := &bystander{in: w, out: make(chan struct{})}
	ready := make(chan struct{})
	var once sync.Once
	go func() {
		defer close(by.out)
		by.res, by.err = h.Run(ctx, job, cell.Streams{Stdin: in, Event: func(e api.Event) {
			if e.Type == "chunk" && strings.Contains(e.Data, "ready\n") {
				once.Do(func() { close(ready) })
			}
		}})
	}()
	select {
	case <-ready:
		return by, nil
	case <-by.out:
		w.Close()
		if by.err == nil {
			by.err = fmt.Errorf("it ended with %s before it was ready: %.300s: %w", ended(by.res), by.res.Stderr, os.ErrProcessDone)
		}
		return nil, by.err
	}
}

// end lets the bystander go on and returns what it said.
func (b *bystander) end() (string, error) {
	b.in.Close()
	<-b.out
	if b.err != nil {
		return "", b.err
	}
	if b.res.Verdict != api.OK {
		return b.res.Stdout, fmt.Errorf("the bystander ended with %s", ended(b.res))
	}
	return b.res.Stdout, nil
}
