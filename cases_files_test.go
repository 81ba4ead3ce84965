package glovebox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/api"
)

// fileCases are the files of caseDir about artifacts, uploads and compilers.
var fileCases = []caseEntry{
	{file: "060-symlink-final.sh", script: caseArtifacts([]string{"out.txt", "secret"}, nil,
		map[string]string{"out.txt": "is a symbolic link", "secret": "is a symbolic link"})},
	{file: "061-symlink-middle.sh", script: caseArtifacts([]string{"hop/environ", "up/etc/hostname", "dir/*"}, nil, map[string]string{
		"hop": "is a symbolic link", "up": "is a symbolic link", "dir": "is a symbolic link",
		"hop/environ": "there is no such file", "up/etc/hostname": "there is no such file", "dir/*": "there is no such file"})},
	{file: "063-fifo-artifact.sh", script: caseArtifacts([]string{"pipe", "real.txt"}, map[string]string{"real.txt": "data\n"},
		map[string]string{"pipe": "is a FIFO"})},
	{file: "066-odd-names.py", script: caseArtifacts([]string{"*"},
		map[string]string{`q"uote;.txt`: "x", "sp ace": "x", "漢字.txt": "x", strings.Repeat("n", 255): "x"},
		map[string]string{`"a\nb.txt"`: "its name has a control character", `"\xff\xfe.bin"`: "its name is not UTF-8", `"-rf"`: "its name has a part that begins with - or @"})},
	{file: "068-upload-traversal.json", script: caseTraversal},
	{file: "069-zip-slip.py", script: caseArtifacts([]string{"outside.txt", "abs.txt", "lnk/*", "t.txt", "h"}, nil, map[string]string{
		"outside.txt": "there is no such file", "abs.txt": "there is no such file", "lnk/*": "there is no such file", "t.txt": "there is no such file", "h": "there is no such file"})},
	{file: "104-go-hello.go", script: func(c *caseBox, file []byte) {
		c.run(glovebox.Program{Language: "go", Source: string(file), Limits: glovebox.Limits{MemoryBytes: 128 * mebi, Pids: 64}},
			caseWant{verdict: api.OK, stdout: "100 goroutines\n"})
	}},
	{file: "121-ssrf-forms.json", script: caseFetchForms},
	{file: "123-include-shadow.c", script: caseCompile(`(?s).*fatal error: /etc/shadow: No such file or directory.*`, "")},
	{file: "124-incbin-host.c", script: func(c *caseBox, file []byte) {
		c.run(glovebox.Program{Language: "c", Source: string(file)}, caseWant{verdict: api.OK, stdout: "glovebox\n"})
	}},
	{file: "125-include-dev.c", script: caseCompile(`(?s).*`, api.CauseMemory)},
	{file: "128-error-flood.py", script: caseErrorFlood},
	{file: "129-args-injection.json", script: caseInjection},
}

func init() {
	caseTable = append(caseTable, fileCases...)
	slices.SortFunc(caseTable, func(a, b caseEntry) int { return strings.Compare(a.file, b.file) })
}

// caseFetchForms has each URL of a file refused by the tool that fetches. What
// may pass, and the controls, are in the tests of package agent, which connect
// to nothing that is not theirs.
func caseFetchForms(c *caseBox, file []byte) {
	var forms struct{ Block, Allow []string }
	if err := json.Unmarshal(file, &forms); err != nil || len(forms.Block) == 0 {
		c.Fatal(err)
	}
	for _, form := range forms.Block {
		rules := []agent.FetchRule{{Origin: "https://api.example.com", Paths: []string{"/"}}}
		own := agent.FetchRule{Origin: strings.TrimSuffix(form, "/"), Paths: []string{"/"}}
		if _, err := agent.HTTPFetch(agent.FetchOptions{Rules: []agent.FetchRule{own}}); err == nil {
			rules = append(rules, own)
		}
		f, err := agent.HTTPFetch(agent.FetchOptions{Rules: rules})
		if err != nil {
			c.Fatal(err)
		}
		if _, err := f.Fetch(c.Context(), form, nil); !errors.Is(err, agent.FetchBadURL) && !errors.Is(err, agent.FetchAddress) {
			c.Errorf("%s: %v", form, err)
		}
	}
}

// caseArtifacts runs a file that asks for artifacts, and wants exactly these
// contents and refusals; the file itself, if a pattern stands for it, is ours.
func caseArtifacts(patterns []string, want, refused map[string]string) func(*caseBox, []byte) {
	return func(c *caseBox, file []byte) {
		p := caseBash(string(file))
		if strings.Contains(string(file), "import ") {
			p = python(string(file))
		}
		p.Artifacts = patterns
		r, err := c.box.Run(c.Context(), p)
		if err != nil {
			c.Fatal(err)
		}
		if r.Verdict != api.OK {
			c.Errorf("%s: %s", r.Verdict, r.Stderr)
		}
		got := collected(c, r)
		maps.DeleteFunc(got, func(name, _ string) bool { return name == "main.py" || name == "main.sh" })
		if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 {
			c.Error(d)
		}
		if d := cmp.Diff(refused, refusals(r)); d != "" {
			c.Error(d)
		}
	}
}

// caseTraversal sends files of each name. One that is a fine name elsewhere and an
// option to a tool is refused too (H-26).
func caseTraversal(c *caseBox, file []byte) {
	var in struct {
		Bad []string `json:"each_path_bad"`
		OK  []string `json:"each_path_ok"`
	}
	c.decode(file, &in)
	try := func(name string) (*glovebox.Result, error) {
		p := caseBash("find . | sort\n")
		p.Files, p.Source = []glovebox.File{{Name: "main.sh", Content: p.Source}, {Name: name, Content: "x"}}, ""
		return c.box.Run(c.Context(), p)
	}
	for _, name := range append(in.Bad, "-n") {
		_, err := try(name)
		var fe *glovebox.FieldError
		if !errors.As(err, &fe) || fe.Field != "files[1].name" || fe.Value != fmt.Sprintf("%q", name) {
			c.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range in.OK {
		if name == "-n" {
			continue
		}
		r, err := try(name)
		if err != nil || !strings.Contains(r.Stdout, "\n./"+name+"\n") {
			c.Errorf("%q: %v %+v", name, err, r)
		}
	}
}

// caseCompile wants a compile_error with these words and this cause.
func caseCompile(words, cause string) func(*caseBox, []byte) {
	return func(c *caseBox, file []byte) {
		r := c.run(glovebox.Program{Language: "c", Source: string(file), Limits: glovebox.Limits{Compile: &glovebox.Limits{MemoryBytes: 256 * mebi}}},
			caseWant{verdict: api.CompileError, cause: cause, exit: noExit})
		if r.Compile == nil {
			c.Fatal("nothing of the compiler")
		}
		for _, line := range caseDiffText("the compiler's stderr", r.Compile.Stderr, "", words) {
			c.Error(line)
		}
		if strings.Contains(r.Compile.Stderr, "root:") || strings.Contains(r.Compile.Stderr, "PATH=") {
			c.Errorf("the compiler tells what it read: %q", r.Compile.Stderr)
		}
		caseThenHello(c, r)
	}
}

// caseErrorFlood compiles what the file prints; the words are cut and say so.
func caseErrorFlood(c *caseBox, file []byte) {
	source := c.run(python(string(file)), caseWant{verdict: api.OK, stdoutPattern: `(?s)int main.*`})
	r := c.run(glovebox.Program{Language: "c", Source: source.Stdout, Limits: glovebox.Limits{Compile: &glovebox.Limits{StderrBytes: 100_000}}},
		caseWant{verdict: api.CompileError, cause: api.CauseStderr, exit: noExit})
	if len(r.Compile.Stderr) != 100_000 || !r.Compile.Truncated.Stderr {
		c.Errorf("%d bytes, truncated %+v", len(r.Compile.Stderr), r.Compile.Truncated)
	}
}

// caseInjection gives each word as an argument, which arrives as it is; for options
// of a compiler there is no place at all.
func caseInjection(c *caseBox, file []byte) {
	var in struct {
		Args     [][]string `json:"each_args"`
		Compiler []string   `json:"each_compiler_args"`
		Run      struct {
			Source string `json:"source"`
		} `json:"run"`
	}
	c.decode(file, &in)
	for _, args := range append(in.Args, in.Compiler) {
		p := caseBash(in.Run.Source)
		p.Args = args
		want := ""
		for _, a := range args {
			want += "[" + a + "]\n"
		}
		c.run(p, caseWant{verdict: api.OK, stdout: want})
		// The same words after a compiled program's name are the program's alone.
		p = glovebox.Program{Language: "c", Source: "#include <stdio.h>\nint main(int n, char **v){for (int i = 1; i < n; i++) printf(\"[%s]\\n\", v[i]);}", Args: args}
		c.run(p, caseWant{verdict: api.OK, stdout: want})
	}
}
