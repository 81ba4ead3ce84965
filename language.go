package glovebox

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/languages"
)

// baseEnv is the environment of every guest. What numeric libraries and nproc
// read of the number of processors is added to it, see environ.
var baseEnv = map[string]string{
	"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/box", "TMPDIR": "/tmp", "USER": "guest", "LOGNAME": "guest",
	"LANG": "C.UTF-8", "TZ": "UTC",
}

// language finds an installed language.
func (b *Box) language(name string) (*languages.Language, error) {
	lang := b.languages.Find(name)
	if lang == nil {
		return nil, &FieldError{Field: "language", Value: name, Reason: "is not known; known are " + strings.Join(b.languages.Names(), ", ")}
	}
	if _, missing := lang.Program(); missing != "" {
		return nil, &FieldError{Field: "language", Value: name, Reason: "is not installed on this host (looked for " + missing + ")"}
	}
	return lang, nil
}

// steps turns the argvs of a language into the job's, and returns the
// environment of the program.
func (b *Box) steps(p *Program, lang *languages.Language, job *cell.Job) (map[string]string, error) {
	entry := job.Files[0].Name
	if p.Entry != "" {
		if !slices.ContainsFunc(job.Files, func(f cell.File) bool { return f.Name == p.Entry }) {
			return nil, &FieldError{Field: "entry", Value: p.Entry, Reason: "is not the name of one of the files"}
		}
		entry = p.Entry
	}
	if strings.Contains(path.Dir(entry), "...") && slices.ContainsFunc(lang.Compile, func(a string) bool { return strings.Contains(a, "{dir}") }) {
		return nil, &FieldError{Field: "entry", Value: entry, Reason: "lies in a folder with three dots in its name, which " + lang.Name + " reads as a pattern"}
	}
	program, _ := lang.Program()
	places := languages.Places{Program: program, Entry: entry, Out: cell.ProductDir, Stem: strings.TrimSuffix(path.Base(entry), path.Ext(entry)),
		Memory: job.Limits.MemoryBytes, CPUs: cell.CPUs(job.Limits.CPUPercent)}
	job.Argv = append(places.Fill(lang.Run), p.Args...)
	env := maps.Clone(baseEnv)
	for k, v := range lang.Env {
		env[k] = places.Text(v)
	}
	if len(lang.Compile) == 0 {
		if p.Limits.Compile != nil {
			return nil, &FieldError{Field: "limits.compile", Reason: lang.Name + " is not compiled"}
		}
		return env, nil
	}
	limits, err := p.Limits.ResolveCompile(lang.CompileLimits.Over(api.DefaultCompileLimits()), b.max)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(job.Files))
	for i, f := range job.Files {
		names[i] = f.Name
	}
	places.Sources = lang.Sources(entry, names)
	places.Memory, places.CPUs = limits.MemoryBytes, cell.CPUs(limits.CPUPercent)
	compileEnv := maps.Clone(baseEnv)
	for k, v := range lang.CompileEnv {
		compileEnv[k] = places.Text(v)
	}
	if lang.Warm != nil && b.warm.has(lang.Name) {
		compileEnv[lang.Warm.Env] = warmDir + lang.Name
	}
	job.Compile = &cell.Step{Argv: places.Fill(lang.Compile), Limits: limits}
	job.Compile.Env, err = environ(compileEnv, nil, lang, places.CPUs)
	return env, err
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// environ joins the environment of a guest and what a program adds to it. A
// library that starts a thread for each processor it sees, and nproc(1), take
// the number from a variable where the kernel would tell the host's.
func environ(env, add map[string]string, lang *languages.Language, cpus int) ([]string, error) {
	all := map[string]string{"OMP_NUM_THREADS": strconv.Itoa(cpus), "GOMAXPROCS": strconv.Itoa(cpus)}
	maps.Copy(all, env)
	size := 0
	for _, k := range slices.Sorted(maps.Keys(add)) {
		v, field := add[k], "env."+k
		if !envName.MatchString(k) {
			return nil, &FieldError{Field: "env", Value: fmt.Sprintf("%q", k), Reason: "a name must match " + envName.String()}
		}
		if lang != nil && slices.Contains(lang.Reserved, k) {
			return nil, &FieldError{Field: field, Reason: "is reserved by the language " + lang.Name}
		}
		if strings.IndexByte(v, 0) >= 0 {
			return nil, &FieldError{Field: field, Reason: "must not hold a NUL byte"}
		}
		if size += len(k) + len(v) + 2; size > maxEnvSize || len(k)+len(v)+2 > maxArgSize {
			return nil, &FieldError{Field: field, Reason: fmt.Sprintf("the environment must have at most %d bytes, one variable at most %d", maxEnvSize, maxArgSize)}
		}
		all[k] = v
	}
	out := make([]string, 0, len(all))
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, k+"="+all[k])
	}
	return out, nil
}
