package glovebox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// cSource makes a program of C sources: name, text, name, text.
func cSource(files ...string) glovebox.Program {
	p := glovebox.Program{Language: "c"}
	for i := 0; i < len(files); i += 2 {
		p.Files = append(p.Files, glovebox.File{Name: files[i], Content: files[i+1]})
	}
	return p
}

// A program of several files is compiled in one cell and run in another, with its
// arguments and input; what the compiler did is told apart from it.
//
// proves part of X-20
func TestCompile(t *testing.T) {
	p := cSource("main.c", "#include <stdio.h>\n#include \"inc/add.h\"\nint main(int n, char **v){char b[9]; fgets(b, 9, stdin); printf(\"%d %s %s\", add(1, n), v[1], b); return 4;}\n",
		"lib/add.c", "#include \"../inc/add.h\"\nint add(int a, int b){return a+b;}\n", "inc/add.h", "int add(int, int);\n", "data.txt", "x")
	p.Args, p.Stdin = []string{"arg"}, []byte("in\n")
	r := run(t, box(t), p)
	if r.Verdict != api.Error || *r.ExitCode != 4 || r.Stdout != "3 arg in\n" {
		t.Fatalf("%s %q %+v", r.Verdict, r.Stdout, r.Compile)
	}
	c := r.Compile
	if c == nil || c.ExitCode == nil || *c.ExitCode != 0 || c.WallMS <= 0 || c.CPUMS == nil || *c.CPUMS <= 0 || c.PeakBytes == nil || *c.PeakBytes < 1<<20 || c.Cached {
		t.Errorf("compile: %+v", c)
	}
	if r.Evidence.Profile != "language" || r.WallMS >= c.WallMS*20 {
		t.Errorf("evidence of %s, %v ms", r.Evidence.Profile, r.WallMS)
	}
	// Interpreted languages have no such part, and no limits for it.
	if r := run(t, box(t), python("print(1)")); r.Compile != nil {
		t.Error("python was compiled")
	}
	q := python("print(1)")
	q.Limits.Compile = &glovebox.Limits{WallMS: 1000}
	var fe *glovebox.FieldError
	if _, err := box(t).Run(t.Context(), q); !errors.As(err, &fe) || fe.Field != "limits.compile" {
		t.Errorf("limits of no compiler: %v", err)
	}
	p.Limits.Compile = &glovebox.Limits{WallMS: 10}
	if _, err := box(t).Run(t.Context(), p); !errors.As(err, &fe) || fe.Field != "limits.compile.wall_ms" {
		t.Errorf("below the floor: %v", err)
	}
}

// What does not compile is a verdict of its own, with the compiler's words; what
// compiles with warnings runs. Paths in its words are the cell's own.
//
// proves part of H-41
func TestCompileError(t *testing.T) {
	r := run(t, box(t), cSource("main.c", "int main(){return nothing;}\n"))
	if r.Verdict != api.CompileError || r.ExitCode != nil || r.CPUMS != nil || r.Message != "the compiler refused the program" || r.Evidence.Profile != "compile" {
		t.Errorf("%s, exit %v, %q, evidence of %s", r.Verdict, r.ExitCode, r.Message, r.Evidence.Profile)
	}
	if r.Compile == nil || *r.Compile.ExitCode != 1 || !strings.Contains(r.Compile.Stderr, "./main.c:1:19: error: ") {
		t.Errorf("%+v", r.Compile)
	}
	if r := run(t, box(t), cSource("main.c", "#warning careful\nint main(){return 0;}\n")); r.Verdict != api.OK || !strings.Contains(r.Compile.Stderr, "#warning careful") {
		t.Errorf("%s %+v", r.Verdict, r.Compile)
	}
	ctx, cancel := context.WithCancel(t.Context())
	running, err := box(t).Start(ctx, cSource("main.c", "#include \"/dev/urandom\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	if r := finished(t, running); r.Verdict != api.Canceled && r.Verdict != api.CompileError {
		t.Errorf("canceled while it compiles: %s", r.Verdict)
	}
}

// The program cannot change what the compiler made; only the mount keeps it from
// that, as the compiler's own cell shows.
func TestProductIsReadOnly(t *testing.T) {
	write := `#define _GNU_SOURCE
#include <stdio.h>
#include <fcntl.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
int main(){ printf("%s ", open("/prog/new", O_CREAT|O_WRONLY, 0644) < 0 ? strerrorname_np(errno) : "made");
printf("%s ", chmod("/prog/main", 0) < 0 ? strerrorname_np(errno) : "changed");
printf("%s ", unlink("/prog/main") < 0 ? strerrorname_np(errno) : "removed");
printf("%s\n", rename("/box/main.c", "/prog/main.c") < 0 ? strerrorname_np(errno) : "moved"); }`
	if r := run(t, box(t), cSource("main.c", write)); r.Stdout != "EROFS EROFS EROFS EXDEV\n" && r.Stdout != "EROFS EROFS EROFS EROFS\n" {
		t.Errorf("%s %q", r.Verdict, r.Stdout)
	}
	r := run(t, box(t), glovebox.Program{Profile: "compile", Command: []string{"/bin/sh", "-c", "echo x >/prog/new && cat /prog/new"}})
	if r.Stdout != "x\n" {
		t.Errorf("a compiler cannot write: %q", r.Stderr)
	}
}

// Sources that eat a compiler end at its limits with a verdict and a cause, and the
// next program is none the worse.
//
// proves part of H-27
func TestCompileBombs(t *testing.T) {
	small := &glovebox.Limits{WallMS: 3000, CPUMS: 2000, MemoryBytes: 128 << 20, StderrBytes: 64 << 10}
	for name, c := range map[string]struct {
		language, source string
		causes           string // any of these
		stderr           string
	}{
		"device":         {"c", "#include \"/dev/zero\"\n", "memory cpu wall", ""},
		"random device":  {"c", "#include \"/dev/urandom\"\n", "memory cpu wall stderr ", ""},
		"itself":         {"c", "#include __FILE__\n#include __FILE__\n", "cpu wall stderr ", ""},
		"giant object":   {"c", "char a[900<<20] = {1};\nint main(){return a[0];}\n", " memory cpu wall", ""},
		"macros":         {"c", "#define A B B B B B B B B\n#define B C C C C C C C C\n#define C D D D D D D D D\n#define D E E E E E E E E\n#define E F F F F F F F F\n#define F G G G G G G G G\n#define G H H H H H H H H\n#define H I I I I I I I I\n#define I 1+\nint x = A A A A A A A A 0;\n", "memory cpu wall", ""},
		"templates":      {"c++", "template<class A, int N> struct T { typedef typename T<T<A, N-1>, N-1>::type type; T<T<A,N+1>,N-2> x; };\nT<int, 800> t;\nint main(){}\n", "memory cpu wall stderr ", ""},
		"constexpr":      {"c++", "constexpr long f(long n){long s=0;for(long i=0;i<n;i++)for(long j=0;j<n;j++)s+=j;return s;}\nstatic_assert(f(100000)!=1);\nint main(){}\n", " cpu wall memory", ""},
		"assembler":      {"c", "asm(\".rept 100000000\\n.quad 1\\n.endr\");\nint main(){}\n", "memory cpu wall ", ""},
		"error flood":    {"c++", "#define E(x) x x x x x x x x x x\nint main(){" + strings.Repeat("E(E(E(E(no_such_name;))))\n", 50) + "}", "memory cpu wall stderr ", ""},
		"no such file":   {"c", "#include \"/etc/shadow\"\n#include \"/root/.ssh/id_rsa\"\n", "", "No such file"},
		"incbin of root": {"c", "asm(\".incbin \\\"/etc/shadow\\\"\");\nint main(){}\n", "", "/etc/shadow"},
	} {
		t.Run(name, func(t *testing.T) {
			p := glovebox.Program{Language: c.language, Source: c.source, Limits: glovebox.Limits{Compile: small}}
			begin := time.Now()
			r := run(t, box(t), p)
			if r.Verdict != api.CompileError || !strings.Contains(" "+c.causes+" ", " "+r.Cause+" ") || r.Message == "" {
				t.Errorf("%s, cause %q: %s %+v", r.Verdict, r.Cause, r.Message, r.Compile)
			}
			if took := time.Since(begin); took > 3*time.Second+2*time.Second {
				t.Errorf("settled after %v", took)
			}
			if r.Compile == nil || len(r.Compile.Stderr) > 64<<10 || r.Compile.Truncated.Stderr != (r.Cause == api.CauseStderr) || !strings.Contains(r.Compile.Stderr, c.stderr) {
				t.Errorf("%+v", r.Compile)
			}
		})
	}
	if r := run(t, box(t), cSource("main.c", "#include <stdio.h>\nint main(){puts(\"fine\");}\n")); r.Stdout != "fine\n" {
		t.Errorf("the next program: %s", r.Verdict)
	}
}

// What an administrator put into /usr/local by hand is in no cell, whatever the
// compiler is told to include; a language that asks for it by name is the control.
//
// proves part of H-27
func TestCompileSeesPackagesOnlyAsRoot(t *testing.T) {
	dir, err := os.MkdirTemp("/usr/local/share", "glovebox-canary-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	canary := filepath.Join(dir, "token")
	for path, mode := range map[string]os.FileMode{dir: 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(canary, []byte("canary-token-7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	source := fmt.Sprintf("#include <stdio.h>\nasm(\".section .rodata\\n.global f\\nf: .incbin \\\"%s\\\"\\n.byte 0\\n.previous\");\nextern char f[];\nint main(){puts(f);}\n", canary)
	r := run(t, box(t), cSource("main.c", source))
	if r.Verdict != api.CompileError || strings.Contains(fmt.Sprint(*r, *r.Compile), "canary-token") {
		t.Errorf("%s %+v", r.Verdict, r.Compile)
	}
	r = run(t, box(t), cSource("main.c", "#include \""+canary+"\"\nint main(){}\n"))
	if r.Verdict != api.CompileError || strings.Contains(fmt.Sprint(*r, *r.Compile), "canary-token") {
		t.Errorf("%s %+v", r.Verdict, r.Compile)
	}
	o := options()
	o.Languages = []string{languageFile(t, `"name": "asking", "extensions": [".ask"], "paths": ["`+canary+`"]`)}
	if r := run(t, newBox(t, o), cSource("main.c", source)); r.Stdout != "canary-token-7\n\n" {
		t.Errorf("control: %s %q %+v", r.Verdict, r.Stdout, r.Compile)
	}
}

// languageFile writes the file of a language that runs python, with further
// members that take the place of what is said here.
func languageFile(t *testing.T, members string) string {
	t.Helper()
	all := map[string]string{"name": `"x"`, "title": `"X"`, "extensions": `[".x"]`, "interpreters": `[]`, "programs": `["/usr/bin/python3"]`, "file": `"main.x"`,
		"version": `["{program}", "--version"]`, "run": `["{program}", "./{entry}"]`, "smoke": `{"source": "print(1)\n", "stdout": "1\n"}`}
	text := members
	for k, v := range all {
		if !strings.Contains(members, `"`+k+`":`) {
			text += ", \"" + k + "\": " + v
		}
	}
	path := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(path, []byte("{"+strings.TrimPrefix(text, ", ")+"}"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Names of files and arguments are never options of a tool: a compiler gets each
// file as ./NAME at its fixed place and no argument of the program; the program
// gets the arguments after its own name, as they are.
//
// proves H-26
func TestArgumentsAreNoOptions(t *testing.T) {
	o := options()
	// A compiler that makes a program of its own argv.
	show := `import sys, os, json; open('{out}/main.py','w').write('import sys, json\nprint(json.dumps(' + repr(sys.argv[1:]) + '))\nprint(json.dumps(sys.argv[1:]))')`
	o.Languages = []string{languageFile(t, fmt.Sprintf(`"name": "argv", "compile": ["{program}", "-c", %s, "-o", "{out}/main.py", "{sources}", "-lm"], "run": ["{program}", "{out}/main.py"]`, quoteJSON(show)))}
	b := newBox(t, o)
	names := []string{"x.x", "a=b.x", "a b.x", "$(id).x", "`id`.x", ";id.x", "|id.x", "&id.x", "a'b.x", "a\"b.x", "*.x", "?.x", "[a].x", "{a,b}.x", "%s.x", "é.x", "#.x", "!.x",
		"a,b.x", "Wl,--dynamic-linker=x.x", "x-o.x", "specs=s.x", "a:b.x", "{out}.x", "{sources}.x", "sub/-lm", "d/a.x", "..x.x", "...x", "a..b.x"}
	for _, name := range names {
		p := glovebox.Program{Language: "argv", Files: []glovebox.File{{Name: name, Content: "1"}, {Name: "b.x", Content: "2"}},
			Args: []string{"-o", "/etc/x", "@/etc/passwd", "-fplugin=/tmp/x.so", "$(id)", "", "a b", "\n", "-"}}
		_, err := b.Run(t.Context(), p)
		if strings.Contains(name, "/-") {
			var fe *glovebox.FieldError
			if !errors.As(err, &fe) || fe.Field != "files[0].name" {
				t.Errorf("%q: %v", name, err)
			}
			continue
		}
		r := run(t, b, p)
		want := fmt.Sprintf("%s\n%s\n", pythonJSON([]string{"-o", "/prog/main.py", "./" + name, "./b.x", "-lm"}), pythonJSON(p.Args))
		if d := cmp.Diff(want, r.Stdout); d != "" {
			t.Errorf("%q: %s %s%s\n%s", name, r.Verdict, r.Message, r.Stderr, d)
		}
	}
	_, err := b.Run(t.Context(), glovebox.Program{Language: "go", Files: []glovebox.File{{Name: ".../main.go", Content: "package main\nfunc main() {}\n"}}})
	var fe *glovebox.FieldError
	if !errors.As(err, &fe) || fe.Field != "entry" {
		t.Errorf("a pattern of go's as a folder: %v", err)
	}
	for _, name := range []string{"-o", "-fplugin=./x.so", "@resp", "--require=x", "-Wl,--dynamic-linker", "a/-x", "a/@x", "../x", "/x", "./x", "a//b", "a/", "a\x00b", "C:\\x", "..\\x", "~/x", "~", "a\u2028b", "a\u202eb"} {
		_, err := b.Run(t.Context(), glovebox.Program{Language: "argv", Files: []glovebox.File{{Name: "x.x"}, {Name: name}}})
		var fe *glovebox.FieldError
		if !errors.As(err, &fe) || fe.Field != "files[1].name" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// quoteJSON is a text as a JSON string.
func quoteJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// pythonJSON is a list as Python's json.dumps writes it.
func pythonJSON(list []string) string {
	parts := make([]string, len(list))
	for i, s := range list {
		q := strconv.QuoteToASCII(s)
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(q, `\x00`, `\u0000`), `\x`, `\u00`)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
