package glovebox

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/warm"
	"github.com/glovebox-dev/glovebox/languages"
)

// Bounds of a filled cache.
const (
	maxWarmBytes = 1 << 30
	maxWarmFiles = 20_000
	warmWallMS   = 600_000
)

// warmDir is where cells see the caches of compilers.
const warmDir = "/warm/"

// warmth is the compilers' caches that a Box's cells see, by language. Each is
// verified before its first use, once.
type warmth struct {
	log    *slog.Logger
	caches map[string]func() bool
}

// cacheDir is where filled caches are kept: what the options say, else a folder
// whose path, which programs can read in mountinfo, names nobody.
func (o Options) cacheDir() string {
	dir := o.CacheDir
	switch {
	case dir != "":
	case os.Geteuid() == 0:
		dir = "/var/cache/glovebox"
	default:
		dir = fmt.Sprintf("/var/tmp/glovebox-%d", os.Geteuid())
	}
	if dir, err := filepath.Abs(dir); err == nil {
		return dir
	}
	return ""
}

// cacheOf is where a language's cache is or will be; ok is false for a language
// that has none.
func cacheOf(dir string, l *languages.Language) (c warm.Cache, ok bool) {
	program, missing := l.Program()
	if l.Warm == nil || missing != "" || dir == "" {
		return c, false
	}
	key, err := warm.Key(program, l.Warm.Fill, l.Warm.With)
	return warm.At(dir, l.Name, key), err == nil
}

// findWarm finds the caches that are filled, and the folders to show.
func findWarm(dir string, set languages.Set, log *slog.Logger) (*warmth, []cell.Folder) {
	w := &warmth{log: log, caches: map[string]func() bool{}}
	if log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	var show []cell.Folder
	for _, l := range set {
		c, ok := cacheOf(dir, l)
		if !ok || !c.Exists() {
			continue
		}
		if err := cell.Reachable(c.Files()); err != nil {
			w.log.Warn("the cache of a compiler is not used", "language", l.Name, "error", err)
			continue
		}
		files, err := filepath.EvalSymlinks(c.Files()) // the launcher follows no link
		if err != nil {
			w.log.Warn("the cache of a compiler is not used", "language", l.Name, "error", err)
			continue
		}
		show = append(show, cell.Folder{Source: files, At: warmDir + l.Name})
		w.caches[l.Name] = sync.OnceValue(func() bool {
			err := c.Verify()
			if err != nil {
				w.log.Error("the cache of a compiler is not used", "language", l.Name, "error", err)
			}
			return err == nil
		})
	}
	return w, show
}

// has tells whether a language's compiler may read its cache.
func (w *warmth) has(language string) bool {
	verified, ok := w.caches[language]
	return ok && verified()
}

// Warm fills the cache of a language's compiler, in the folder of
// Options.CacheDir, from nothing but the language's own installation: it runs the
// filling program that comes with the language in a cell and keeps what that
// leaves. Boxes made after that use it. It takes as long as the language's
// standard library takes to compile, and replaces what was there. A language
// without such a cache is a *[FieldError].
func (b *Box) Warm(ctx context.Context, language string) error {
	l, err := b.language(language)
	if err != nil {
		return err
	}
	c, ok := cacheOf(b.cacheDir, l)
	if !ok {
		return &FieldError{Field: "language", Value: language, Reason: "has no cache to be filled"}
	}
	if err := os.MkdirAll(b.cacheDir, 0o755); err != nil {
		return err
	}
	if err := cell.Reachable(b.cacheDir); err != nil {
		return fmt.Errorf("the folder of caches %w", err)
	}
	limits, err := Limits{WallMS: min(warmWallMS, b.max.WallMS), CPUMS: min(warmWallMS, b.max.CPUMS), CPUPercent: b.max.CPUPercent,
		MemoryBytes: min(3<<30, b.max.MemoryBytes), DiskBytes: min(maxWarmBytes, b.max.DiskBytes), DiskFiles: min(100_000, b.max.DiskFiles),
		FileBytes: min(maxWarmBytes, b.max.FileBytes)}.Resolve(l.CompileLimits.Over(api.DefaultCompileLimits()), b.max)
	if err != nil {
		return err
	}
	program, _ := l.Program()
	places := languages.Places{Program: program, Out: cell.ProductDir, Memory: limits.MemoryBytes, CPUs: cell.CPUs(limits.CPUPercent)}
	env := maps.Clone(baseEnv)
	for k, v := range l.CompileEnv {
		env[k] = places.Text(v)
	}
	for k, v := range l.Warm.With {
		env[k] = places.Text(v)
	}
	env[l.Warm.Env] = cell.ProductDir
	step := &cell.Step{Argv: places.Fill(l.Warm.Fill), Limits: limits}
	if step.Env, err = environ(env, nil, l, places.CPUs); err != nil {
		return err
	}
	if err := b.gate.command(ctx, step.Argv); err != nil {
		return err
	}
	product, res, err := b.host.Make(ctx, step, maxWarmBytes, maxWarmFiles)
	switch {
	case err != nil:
		return err
	case len(res.RefusedArtifacts) > 0:
		return fmt.Errorf("filling the cache of %s: %s: %s", language, res.RefusedArtifacts[0].Name, res.RefusedArtifacts[0].Reason)
	case len(product) == 0:
		return fmt.Errorf("filling the cache of %s: %s %s%s", language, res.Verdict, res.Message, res.Stderr)
	}
	files := map[string][]byte{}
	for _, f := range product {
		files[f.Name] = f.Data
	}
	return c.Fill(files)
}
