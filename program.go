package glovebox

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/seccomp"
	"github.com/glovebox-dev/glovebox/languages"
)

// Bounds of a program that are no limits of its run.
const (
	maxArgs    = 1000
	maxArgSize = 128 << 10 // one string of argv or env; the kernel's MAX_ARG_STRLEN
	maxArgv    = 4 << 20   // command and args together; more than any kernel takes with a stack of 8 MiB
	maxEnvSize = 256 << 10
	maxSource  = 8 << 20
)

// resolve checks every field of a program and turns it into a job in which
// nothing is left to look up. The error is a *FieldError.
func (b *Box) resolve(p *Program) (*cell.Job, error) {
	if err := checkShape(p); err != nil {
		return nil, err
	}
	job := &cell.Job{Profile: cell.DefaultProfile, Loopback: p.Network == api.NetworkLoopback, Artifacts: p.Artifacts}
	if p.Profile != "" {
		if !slices.Contains(seccomp.Profiles(), p.Profile) {
			return nil, &FieldError{Field: "profile", Value: fmt.Sprintf("%q", p.Profile), Reason: "is not known"}
		}
		job.Profile = p.Profile
	}
	var lang *languages.Language
	var err error
	if p.Language != "" {
		if lang, err = b.language(p.Language); err != nil {
			return nil, err
		}
	}
	if job.Files, err = filesOf(p, lang); err != nil {
		return nil, err
	}
	defaults := api.DefaultLimits()
	if lang != nil {
		defaults = lang.Limits.Over(defaults)
	}
	if job.Limits, err = p.Limits.Resolve(defaults, b.max); err != nil {
		return nil, err
	}
	var env map[string]string
	if lang == nil {
		if p.Limits.Compile != nil {
			return nil, &FieldError{Field: "limits.compile", Reason: "is for a language that is compiled"}
		}
		job.Argv, env = slices.Concat(p.Command, p.Args), baseEnv
	} else if env, err = b.steps(p, lang, job); err != nil {
		return nil, err
	}
	if job.Env, err = environ(env, p.Env, lang, cell.CPUs(job.Limits.CPUPercent)); err != nil {
		return nil, err
	}
	return job, checkFit(job)
}

// checkFit refuses files for which the cell's disk has no room: it counts whole
// pages, and directories as files.
func checkFit(job *cell.Job) error {
	page := int64(os.Getpagesize())
	size := int64(0)
	var names []string
	for _, f := range job.Files {
		size += (int64(len(f.Data)) + page - 1) / page * page
		names = append(names, f.Name)
	}
	inodes := cell.Inodes(names)
	fit := func(prefix string, l Limits) error {
		switch n := inodes; {
		case size > l.DiskBytes:
			return &FieldError{Field: "files", Value: size, Reason: fmt.Sprintf("must take at most %sdisk_bytes, %d", prefix, l.DiskBytes)}
		case n > l.DiskFiles:
			return &FieldError{Field: "files", Value: n, Reason: fmt.Sprintf("must be at most %sdisk_files, %d, with their directories", prefix, l.DiskFiles)}
		}
		return nil
	}
	if err := fit("limits.", job.Limits); err != nil || job.Compile == nil {
		return err
	}
	return fit("limits.compile.", job.Compile.Limits)
}

// checkShape refuses what contradicts itself.
func checkShape(p *Program) error {
	given := 0
	for _, is := range []bool{p.Source != "", len(p.Files) > 0 && p.Language != "", len(p.Command) > 0} {
		if is {
			given++
		}
	}
	switch {
	case len(p.Command) > 0 && p.Language != "":
		return &FieldError{Field: "command", Reason: "must not be given beside a language"}
	case p.Language == "" && len(p.Command) == 0:
		return &FieldError{Field: "language", Reason: "is missing: give a language and a source, or a command"}
	case given == 0:
		return &FieldError{Field: "source", Reason: "is missing: give source or files"}
	case given > 1:
		return &FieldError{Field: "source", Reason: "give one of source, files and command"}
	case len(p.Source) > maxSource:
		return &FieldError{Field: "source", Value: len(p.Source), Reason: fmt.Sprintf("must have at most %d bytes", maxSource)}
	case p.Network != "" && p.Network != api.NetworkNone && p.Network != api.NetworkLoopback:
		return &FieldError{Field: "network", Value: p.Network, Reason: `must be "none" or "loopback"`}
	case p.Isolation != "" && p.Isolation != api.IsolationProcess:
		return &FieldError{Field: "isolation", Value: p.Isolation, Reason: `must be "process"`}
	}
	for i, a := range p.Artifacts {
		if i == api.MaxPatterns {
			return &FieldError{Field: "artifacts", Value: len(p.Artifacts), Reason: fmt.Sprintf("must have at most %d elements", api.MaxPatterns)}
		}
		if err := api.CheckPattern(a); err != nil {
			return &FieldError{Field: fmt.Sprintf("artifacts[%d]", i), Value: fmt.Sprintf("%q", a), Reason: err.Error()}
		}
	}
	size := 0
	if err := checkStrings("command", p.Command, &size); err != nil {
		return err
	}
	return checkStrings("args", p.Args, &size)
}

// checkStrings checks a list of arguments; size is what came before it.
func checkStrings(field string, list []string, size *int) error {
	if len(list) > maxArgs {
		return &FieldError{Field: field, Value: len(list), Reason: fmt.Sprintf("must have at most %d elements", maxArgs)}
	}
	for i, s := range list {
		if *size += len(s) + 1; *size > maxArgv {
			return &FieldError{Field: field, Value: *size, Reason: fmt.Sprintf("must have at most %d bytes together", maxArgv)}
		}
		if len(s) >= maxArgSize {
			return &FieldError{Field: fmt.Sprintf("%s[%d]", field, i), Value: len(s), Reason: fmt.Sprintf("must have less than %d bytes", maxArgSize)}
		}
		if strings.IndexByte(s, 0) >= 0 {
			return &FieldError{Field: fmt.Sprintf("%s[%d]", field, i), Reason: "must not hold a NUL byte"}
		}
	}
	return nil
}

// filesOf decodes the program's files.
func filesOf(p *Program, lang *languages.Language) ([]cell.File, error) {
	if p.Source != "" && lang != nil {
		return []cell.File{{Name: lang.File, Mode: 0o644, Data: []byte(p.Source)}}, nil
	}
	if len(p.Files) > api.MaxFiles {
		return nil, &FieldError{Field: "files", Value: len(p.Files), Reason: fmt.Sprintf("must have at most %d elements", api.MaxFiles)}
	}
	seen, dirs := map[string]bool{}, map[string]bool{}
	total := 0
	var out []cell.File
	for i, f := range p.Files {
		field := fmt.Sprintf("files[%d]", i)
		if err := api.CheckFileName(f.Name); err != nil {
			return nil, &FieldError{Field: field + ".name", Value: fmt.Sprintf("%q", f.Name), Reason: err.Error()}
		}
		if seen[f.Name] {
			return nil, &FieldError{Field: field + ".name", Value: f.Name, Reason: "is given twice"}
		}
		seen[f.Name] = true
		if dirs[f.Name] {
			return nil, &FieldError{Field: field + ".name", Value: f.Name, Reason: "is the directory of another file"}
		}
		for dir := path.Dir(f.Name); dir != "."; dir = path.Dir(dir) {
			if seen[dir] {
				return nil, &FieldError{Field: field + ".name", Value: f.Name, Reason: "lies below " + dir + ", which is a file"}
			}
			dirs[dir] = true
		}
		data, err := content(f)
		if err != nil {
			return nil, &FieldError{Field: field + ".content", Reason: err.Error()}
		}
		if total += len(data); total > maxSource {
			return nil, &FieldError{Field: "files", Value: total, Reason: fmt.Sprintf("must have at most %d bytes together", maxSource)}
		}
		mode := f.Mode
		if mode == 0 {
			mode = 0o644
		}
		if mode > 0o777 {
			return nil, &FieldError{Field: field + ".mode", Value: fmt.Sprintf("%#o", mode), Reason: "must be permission bits, at most 0777"}
		}
		out = append(out, cell.File{Name: f.Name, Mode: mode, Data: data})
	}
	return out, nil
}

func content(f File) ([]byte, error) {
	switch f.Encoding {
	case "", "utf-8":
		if !utf8.ValidString(f.Content) {
			return nil, errors.New("is not UTF-8; use the encoding base64")
		}
		return []byte(f.Content), nil
	case "base64":
		return base64.StdEncoding.DecodeString(f.Content)
	}
	return nil, fmt.Errorf("encoding %q must be utf-8 or base64", f.Encoding)
}
