package main

import (
	"cmp"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// maxFile bounds what is read of one file; the library bounds them together.
const maxFile = 8 << 20

// program makes the Program from flags and arguments. dash is the number of
// arguments before "--", or -1 without one.
func (f *runFlags) program(args []string, dash int) (glovebox.Program, error) {
	p := glovebox.Program{Network: f.network, Artifacts: f.artifacts}
	if err := f.check(); err != nil {
		return p, err
	}
	var err error
	if p.Limits, err = f.parseLimits(); err != nil {
		return p, err
	}
	if p.Env, err = parseEnv(f.env); err != nil {
		return p, err
	}
	switch {
	case f.given("code"):
		err = f.source(&p, "-e", []byte(f.code))
		p.Args = args
	case dash == 0:
		if f.given("language") {
			return p, usagef("-l %s: goes with a file, -e or -, not with a command after --", f.language)
		}
		if len(args) == 0 {
			return p, usagef("a command is missing after --")
		}
		p.Command = args
	case len(args) == 0:
		return p, usagef("nothing to run: give a file, - for standard input, -e CODE, or -- and a command")
	case args[0] == "-":
		var text []byte
		if f.stdin == "-" {
			return p, usagef("-i -: standard input is the program already")
		}
		f.fromStdin = true
		if text, err = readAll("standard input", os.Stdin); err == nil {
			err = f.source(&p, "-", text)
		}
		p.Args = args[1:]
	default:
		err = f.entry(&p, args[0])
		p.Args = args[1:]
	}
	if err != nil {
		return p, err
	}
	return p, f.further(&p)
}

// source makes text the one file of the program; from names where it came from.
func (f *runFlags) source(p *glovebox.Program, from string, text []byte) error {
	if p.Language = f.language; p.Language == "" {
		if p.Language = f.languages.Detect("", text); p.Language == "" {
			return usagef("%s: give its language with -l (%s)", from, strings.Join(f.languages.Names(), ", "))
		}
	}
	p.Files = append(p.Files, file(f.languages.Find(p.Language).File, 0o644, text))
	return nil
}

// entry makes the file at path the program.
func (f *runFlags) entry(p *glovebox.Program, path string) error {
	first, text, err := readFile(path)
	if err != nil {
		return err
	}
	if p.Language = f.language; p.Language == "" {
		if p.Language = f.languages.Detect(path, text); p.Language == "" {
			return usagef("%s: its language is not clear from its name or first line; give it with -l (%s), or run it as a command: -- %s", path, strings.Join(f.languages.Names(), ", "), path)
		}
	}
	p.Files = append(p.Files, first)
	return nil
}

// further adds the files of --file.
func (f *runFlags) further(p *glovebox.Program) error {
	from := map[string]string{}
	for _, have := range p.Files {
		from[have.Name] = "the program itself"
	}
	for _, path := range f.files {
		more, _, err := readFile(path)
		if err != nil {
			return usagef("--file %s", err)
		}
		if other, twice := from[more.Name]; twice {
			return usagef("--file %s: would be /box/%s, and so is %s", path, more.Name, other)
		}
		from[more.Name] = path
		p.Files = append(p.Files, more)
	}
	return nil
}

// readFile reads a file of the caller. It lies in /box under the last part of
// its path. The error is a usageError that begins with the path.
func readFile(path string) (glovebox.File, []byte, error) {
	if path == "" {
		return glovebox.File{}, nil, usagef("FILE is empty")
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return glovebox.File{}, nil, usagef("%s: is a directory", path)
	}
	name := filepath.Base(path)
	if err := api.CheckFileName(name); err != nil {
		return glovebox.File{}, nil, usagef("%s: its name %s", path, err)
	}
	in, err := os.Open(path)
	if err != nil {
		return glovebox.File{}, nil, usagef("%s: %s", path, cause(err))
	}
	defer in.Close()
	mode := uint32(0o644)
	if st, err := in.Stat(); err == nil {
		if st.Mode()&0o100 != 0 {
			mode = 0o755
		}
	}
	text, err := readAll(path, in)
	if err != nil {
		return glovebox.File{}, nil, err
	}
	return file(name, mode, text), text, nil
}

func readAll(name string, in io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, usagef("%s: %s", name, cause(err))
	}
	if len(text) > maxFile {
		return nil, usagef("%s: must have at most %s", name, size.format(maxFile, " "))
	}
	return text, nil
}

// cause is the reason of a file's error without the names it repeats.
func cause(err error) string {
	for p := (*fs.PathError)(nil); errors.As(err, &p); {
		err = p.Err
	}
	return err.Error()
}

func file(name string, mode uint32, text []byte) glovebox.File {
	f := glovebox.File{Name: name, Mode: mode, Content: string(text)}
	if !utf8.Valid(text) {
		f.Content, f.Encoding = base64.StdEncoding.EncodeToString(text), "base64"
	}
	return f
}

func parseEnv(list []string) (map[string]string, error) {
	env := map[string]string{}
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, usagef("--env %q: must be NAME=VALUE", kv)
		}
		env[k] = v
	}
	return env, nil
}

// input is what the guest reads: the file of -i, or standard input unless that
// is a terminal or the program. Nil means nothing.
func (f *runFlags) input() (io.Reader, error) {
	switch {
	case f.stdin == "-":
		return os.Stdin, nil
	case f.given("stdin"):
		in, err := os.Open(f.stdin)
		if err != nil {
			return nil, usagef("-i %s: %s", f.stdin, cause(err))
		}
		if st, err := in.Stat(); err == nil && st.IsDir() {
			return nil, usagef("-i %s: is a directory", f.stdin)
		}
		return in, nil
	case f.fromStdin, term.IsTerminal(int(os.Stdin.Fd())):
		return nil, nil
	}
	return os.Stdin, nil
}

// parseFolder reads HOST[:AT]. HOST may be relative to the working directory; a
// colon in it is its own unless a slash follows the last one.
func parseFolder(s string) (host, at string, err error) {
	host = s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && strings.HasPrefix(s[i+1:], "/") {
		host, at = s[:i], s[i+1:]
	}
	if host == "" {
		return "", "", usagef("--folder %q: must be HOST or HOST:AT, where AT is an absolute path", s)
	}
	if host, err = filepath.Abs(host); err != nil {
		return "", "", usagef("--folder %s: %s", s, cause(err))
	}
	return host, cmp.Or(at, host), nil
}

// options are those of the run that the flags ask for.
func (f *runFlags) options(stdin io.Reader) ([]glovebox.RunOption, error) {
	var opts []glovebox.RunOption
	for _, s := range f.folders {
		host, at, err := parseFolder(s)
		if err != nil {
			return nil, err
		}
		opts = append(opts, glovebox.WithFolder(host, at))
	}
	if stdin != nil {
		opts = append(opts, glovebox.WithStdin(stdin))
	}
	return opts, nil
}

// additions reads the file of --profile.
func (f *runFlags) additions() (map[string][]string, error) {
	if !f.given("profile") {
		return nil, nil
	}
	name, allow, err := readProfile(f.profile)
	if err != nil {
		return nil, usagef("--profile %s: %s", f.profile, cause(err))
	}
	return map[string][]string{name: allow}, nil
}
