package main

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/glovebox-dev/glovebox"
)

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
	if err == nil {
		err = f.further(&p)
	}
	if err == nil && len(p.Command) > 0 {
		err = inCell(p)
	}
	return p, err
}

// inCell refuses a command that is written as a file of the working directory and
// was not given to the cell. One that is not there either fails in the cell.
func inCell(p glovebox.Program) error {
	name := p.Command[0]
	if !strings.Contains(name, "/") || !filepath.IsLocal(name) {
		return nil
	}
	if !exists(name) || slices.ContainsFunc(p.Files, func(have glovebox.File) bool { return have.Name == filepath.Clean(name) }) {
		return nil
	}
	give := name
	if at := filepath.Clean(name); strings.Contains(at, "/") {
		give += ":/box/" + at
	}
	return usagef("%s: is a file of this host and not in the cell; give it with --file %s", name, give)
}

// source makes text the one file of the program; from names where it came from.
func (f *runFlags) source(p *glovebox.Program, from string, text []byte) error {
	if p.Language = f.language; p.Language == "" {
		if p.Language = f.languages.Detect("", text); p.Language == "" {
			return usagef("%s: give its language with -l (%s)", from, strings.Join(f.languages.Names(), ", "))
		}
	}
	if known := f.languages.Find(p.Language); known != nil {
		p.Files = append(p.Files, file(known.File, 0o644, text))
	} else if p.Source = string(text); !utf8.Valid(text) { // a service's own language, and its name of the file
		return usagef("%s: is not UTF-8; give it as a file", from)
	}
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
			return usagef("%s: its language is not clear from its name or first line; give it with -l (%s)%s", path, strings.Join(f.languages.Names(), ", "), asCommand(path, first))
		}
	}
	f.entryPath = absolute(path)
	p.Files = append(p.Files, first)
	return nil
}

// asCommand says how a file that can be executed is run as a command.
func asCommand(path string, f glovebox.File) string {
	switch {
	case f.Mode&0o111 == 0:
		return ""
	case strings.HasPrefix(absolute(path), "/usr/"), strings.HasPrefix(absolute(path), "/bin/"):
		return ", or run it as a command: -- " + absolute(path)
	}
	return ", or run it as a command: --file " + path + " -- ./" + f.Name
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
	before, _, colon := strings.Cut(s, ":")
	if host == "" || at == "" && colon && exists(before) && !exists(s) {
		return "", "", usagef("--folder %q: must be HOST or HOST:AT, where AT is an absolute path", s)
	}
	if host, err = filepath.Abs(host); err != nil {
		return "", "", usagef("--folder %s: %s", s, cause(err))
	}
	return host, cmp.Or(at, host), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
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
