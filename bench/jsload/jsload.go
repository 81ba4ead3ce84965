// Package jsload is work for JavaScript engines, and the engines that do it: jobs
// with real libraries, and nine small ones. The libraries come from npm by name
// and version (package.json, package-lock.json with their digests), no script of
// theirs is run at installation, and esbuild makes one script of each job.
// Everything lies in a folder of a cache; nothing of it is kept in the repository.
//
// The jobs are the same text for every engine, and so must what they come to be.
package jsload

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed *.js *.json jobs/*.js
var sources embed.FS

// Jobs are the names of the jobs in the order in which they are measured.
var Jobs = []string{"terrain", "force", "dashboard", "bars", "paths", "layers", "slides"}

// Libraries says what each job leans on.
var Libraries = map[string]string{
	"terrain": "three.js, glTF exporter", "force": "d3", "dashboard": "ECharts", "bars": "Vega-Lite, Vega", "paths": "turf", "layers": "dagre", "slides": "pptxgenjs",
}

// Outcome is one run of a job.
type Outcome struct {
	MS     float64 `json:"took"`   // of the work, in the engine's own process; loading the scripts is not in it
	Size   int     `json:"size"`   // of what it made, in characters or bytes
	Digest string  `json:"digest"` // of what it made
}

// Micro is one run of the nine small pieces: the ms of each, and what each came to.
type Micro struct {
	MS      map[string]float64 `json:"took"`
	Results []float64          `json:"results"`
}

// Mean is the geometric mean of the times in ms.
func (m Micro) Mean() float64 {
	sum := 0.0
	for _, ms := range m.MS {
		sum += math.Log(max(ms, 0.001))
	}
	return math.Exp(sum / float64(len(m.MS)))
}

// Bundles are the jobs, each made into one script, with the scripts around them.
type Bundles struct{ dir string }

// Prepare installs the libraries below a folder and bundles the jobs, unless that
// was done before with the same sources. It needs npm; the error has its words.
func Prepare(ctx context.Context, cache string) (*Bundles, error) {
	sum := sha256.New()
	var files []string
	err := fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(name)
		fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
		files = append(files, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(filepath.Join(cache, hex.EncodeToString(sum.Sum(nil)[:8])))
	if err != nil {
		return nil, err
	}
	b := &Bundles{dir: dir}
	done := filepath.Join(dir, "done")
	if _, err := os.Stat(done); err == nil {
		return b, nil
	}
	for _, name := range files {
		text, err := sources.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return nil, err
		}
	}
	if err := b.command(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
		return nil, err
	}
	for _, job := range Jobs {
		if err := b.command(ctx, "node_modules/.bin/esbuild", "jobs/"+job+".js", "--bundle", "--outfile="+b.file("bundle-"+job+".js"), "--format=iife",
			"--global-name=job", "--platform=browser", "--target=es2022", "--minify", "--legal-comments=none", "--log-level=warning",
			`--define:process.env.NODE_ENV="production"`); err != nil {
			return nil, err
		}
	}
	return b, os.WriteFile(done, nil, 0o644)
}

func (b *Bundles) file(name string) string { return filepath.Join(b.dir, name) }

func (b *Bundles) command(ctx context.Context, argv ...string) error {
	if filepath.Base(argv[0]) != argv[0] {
		argv[0] = b.file(argv[0])
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = b.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(argv[0]), cmp.Or(context.Cause(ctx), err), out)
	}
	return nil
}

// Job runs one job in an engine, in a world of its own.
func (b *Bundles) Job(ctx context.Context, e Engine, job string) (Outcome, error) {
	var o Outcome
	files := []string{b.file("shim.js"), b.file("steady.js"), b.file("bundle-" + job + ".js"), b.file("measure.js")}
	err := ask(ctx, e, files, "measure", &o)
	if err == nil && (o.Size == 0 || o.MS <= 0) {
		err = errors.New("nothing was made")
	}
	if err != nil {
		return o, fmt.Errorf("%s: %s: %w", e.Name(), job, err)
	}
	return o, nil
}

// Micro runs the nine small pieces in an engine, in a world of their own.
func (b *Bundles) Micro(ctx context.Context, e Engine) (Micro, error) {
	var m Micro
	err := ask(ctx, e, []string{b.file("micro.js")}, "micro", &m)
	if err == nil && (len(m.MS) != 9 || len(m.Results) != 9) {
		err = fmt.Errorf("%d of nine", len(m.MS))
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", e.Name(), err)
	}
	return m, nil
}
