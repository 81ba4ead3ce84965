package glovebox_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/glovebox-dev/glovebox"

// importPolicy says who may import whom. Imports point one way: plain data and
// mechanisms, then the cell, then the front door, then the commands.
//
//	PACKAGE: EDGE...           what the package may import, its tests included
//	tests PACKAGE: EDGE...     what its _test.go files may import besides
//	tests: EDGE...             what any _test.go file may import besides
//	never PACKAGE: IMPORT...   what it may not import, the standard library included
//	fence NAME: PLACE...       an import, or a function of one, that lives in these places only
//
// A package is written relative to the module, "." being the root package.
// "x/..." stands for x and all below it, on either side of a colon. The
// standard library is free unless a never or fence line speaks of it. A place
// may also be "tests" (any _test.go file), "*_unsafe.go" or "nowhere". A
// package without a line of its own may not exist.
const importPolicy = `
# Plain data, then mechanisms that know nothing of each other.
api:
internal/strictjson: api
languages:           api internal/strictjson
internal/cellproto:  api golang.org/x/sys/...
internal/seccomp:    api golang.org/x/sys/... golang.org/x/net/bpf
internal/cgroup:     api golang.org/x/sys/...
internal/termtext:
internal/wire:
internal/jstoken:
tests internal/jstoken: js
internal/warm:       golang.org/x/sys/...
internal/units:
internal/ownfile:    internal/units golang.org/x/sys/...
internal/strays:     golang.org/x/sys/...
internal/landlock:   api golang.org/x/sys/... github.com/landlock-lsm/go-landlock/landlock/syscall
internal/attest:     api internal/cellproto golang.org/x/sys/...
never api:           os os/exec net net/http syscall unsafe

# The inside of a cell. Small, since it becomes PID 1 beside every guest; a
# signal handler would take away the kernel's protection of PID 1.
internal/cellinit:   api internal/seccomp internal/landlock internal/attest internal/cellproto
internal/cellinit:   golang.org/x/sys/... github.com/landlock-lsm/go-landlock/landlock/syscall
cmd/glovebox-init:   internal/cellinit
never internal/cellinit: os/signal net net/http
never cmd/glovebox-init: os/signal net net/http

# The outside of a cell. It talks to the inside only through cellproto.
internal/cell:       api internal/seccomp internal/cgroup internal/landlock internal/attest internal/cellproto
internal/cell:       golang.org/x/sys/...
tests internal/cell: internal/cellinit internal/jsc/library

# The JavaScript engine. Host programs may look for its file, and never load it.
internal/jsc/library: golang.org/x/sys/...
internal/jsc:        internal/jsc/library github.com/ebitengine/purego golang.org/x/sys/...
internal/worker/bootstrap: internal/jsc
internal/script:
internal/transform: github.com/evanw/esbuild/pkg/api
tests internal/worker/bootstrap: internal/jsc/library internal/wire

# What would confine the worker on macOS, where it does not run.
internal/seatbelt:   github.com/ebitengine/purego golang.org/x/sys/...

# The front door, and what stands before it.
.:                   api gate languages internal/cell internal/cellinit
.:                   internal/warm internal/strays internal/seccomp internal/cgroup internal/landlock internal/attest internal/cellproto
.:                   golang.org/x/sys/...
redteam:             api languages internal/cell internal/landlock golang.org/x/sys/... golang.org/x/tools/txtar
internal/worker:     internal/worker/bootstrap internal/script internal/transform internal/jsc internal/jsc/library internal/wire internal/seccomp golang.org/x/sys/...
cmd/glovebox-js:     internal/worker
never internal/worker: net net/http os/exec os/signal context
tests js: internal/script preflight github.com/evanw/esbuild/pkg/api
js:                  api gate internal/wire internal/termtext internal/cell internal/jsc/library
preflight:           internal/jstoken
tests preflight:     js
gate:                api preflight internal/termtext
tests redteam:       internal/attest
tests js:            internal/testenv/liar/script
internal/egress:
internal/credential: golang.org/x/sys/...
internal/config:     api internal/credential internal/ownfile internal/strictjson internal/units
internal/keyring:
internal/journal:    internal/keyring internal/strictjson
internal/jsonschema: internal/strictjson
never internal/jsonschema: net net/http
tests internal/jsonschema: github.com/google/jsonschema-go/...
agent:               api agent/store gate internal/egress internal/journal internal/jsonschema internal/keyring internal/strictjson internal/termtext js
tests agent:         github.com/evanw/esbuild/pkg/api preflight
internal/patience:
agent/store:         api internal/patience golang.org/x/sys/...
agent/store/natskv:  api agent/store internal/patience github.com/nats-io/nats.go/...
internal/queue:      api golang.org/x/sys/... github.com/nats-io/nats.go/... github.com/nats-io/nats-server/v2/server
internal/budget:     golang.org/x/sys/...
internal/admission:  api internal/credential internal/queue
tests internal/admission: github.com/nats-io/nats-server/v2/server
tests agent/store/...: agent/store internal/testenv/storetest
tests agent/store/natskv: github.com/nats-io/nats-server/v2/server
tests internal/service: github.com/nats-io/nats-server/v2/server
tests .:             agent
internal/executor:   . api internal/queue internal/strictjson golang.org/x/sys/...
tests internal/executor: gate github.com/nats-io/nats-server/v2/server
internal/server:     github.com/coder/websocket
internal/server:     . api gate internal/admission internal/budget internal/credential internal/executor internal/queue internal/strictjson internal/telemetry internal/webhook golang.org/x/sys/...
internal/service:    . api internal/admission internal/budget internal/credential internal/executor internal/queue internal/server internal/strictjson internal/telemetry internal/webhook golang.org/x/sys/...
internal/server:     . api gate internal/admission internal/budget internal/credential internal/executor internal/queue internal/strictjson internal/telemetry golang.org/x/sys/...
tests internal/server: internal/service
internal/service:    . api internal/admission internal/budget internal/credential internal/executor internal/queue internal/server internal/strictjson internal/telemetry golang.org/x/sys/...
internal/server:     . api gate internal/credential internal/executor internal/queue internal/strictjson golang.org/x/sys/...
internal/server:     internal/picture web
internal/picture:    golang.org/x/image/webp
web:
internal/browser:    internal/server internal/service web github.com/chromedp/...
web/bundle:          github.com/evanw/esbuild/pkg/api
internal/service:    . api internal/credential internal/executor internal/queue internal/server
internal/service:    internal/config internal/ownfile
tests internal/server: internal/service github.com/getkin/kin-openapi/...
# Programs on a service; it runs on every system, and runs nothing itself.
client:              api internal/strictjson
tests client:        internal/service internal/queue internal/server
never client:        os/exec unsafe
internal/mcpserver:  . agent agent/store api gate js preflight internal/strictjson internal/termtext
internal/mcpserver:  internal/picture github.com/modelcontextprotocol/go-sdk/... golang.org/x/sys/...
tests internal/mcpserver: github.com/google/jsonschema-go/...
cmd/glovebox:        . agent api client gate languages redteam js preflight
cmd/glovebox:        internal/config internal/mcpserver internal/ownfile internal/queue internal/service internal/strictjson internal/telemetry internal/termtext internal/units
cmd/glovebox:        github.com/coreos/go-systemd/v22/... github.com/spf13/cobra github.com/spf13/pflag golang.org/x/sys/... golang.org/x/term
internal/telemetry:  api internal/credential internal/strictjson golang.org/x/sys/...
internal/telemetry:  github.com/prometheus/client_golang/... github.com/prometheus/client_model/go github.com/prometheus/common/expfmt
tests internal/telemetry: github.com/prometheus/common/model
internal/webhook:    api internal/credential internal/egress internal/queue internal/strictjson
tests internal/webhook: internal/telemetry
tests cmd/glovebox:  internal/credential github.com/modelcontextprotocol/go-sdk/mcp
tests .:             agent agent/store js preflight
examples/tour:       api
examples/codemode:   agent
examples/typescript: agent js
examples/approval:   agent agent/store
examples/multitenant: agent agent/store
examples/mcpclient:  github.com/modelcontextprotocol/go-sdk/mcp
examples/mcptools:   agent github.com/modelcontextprotocol/go-sdk/mcp
examples/sharedbudget: . agent js
examples/remote:     api client
tests examples/remote: internal/service
bench:               . api languages js bench/jsload internal/cell golang.org/x/sys/...
bench:               internal/admission internal/service
bench:               agent agent/store agent/store/natskv github.com/nats-io/nats-server/v2/server
bench/jsload:        js
matrix/...:          matrix/... api redteam golang.org/x/sys/...

# Tools of the repository itself.
internal/seccomp/headers:
internal/seccomp/headers/refresh: internal/seccomp/headers
internal/mutations:
internal/mutations/run:  internal/mutations
internal/house:
internal/house/check:    internal/house
internal/ledger:
internal/ledger/gen:     internal/ledger internal/cell redteam
internal/supply:
internal/supply/run:     internal/supply internal/jsc/library
internal/testenv:        golang.org/x/sys/...
internal/testenv/asuser: golang.org/x/sys/...
internal/testenv/suite:  internal/testenv
internal/testenv/storetest: agent/store api golang.org/x/sys/...
internal/testenv/soak:
internal/testenv/liar:   internal/testenv/liar/script internal/wire internal/worker internal/jsc/library golang.org/x/sys/...
internal/testenv/liar/script:

tests: api internal/testenv golang.org/x/sys/...
tests: github.com/google/go-cmp/... github.com/rogpeppe/go-internal/... go.uber.org/goleak

# Fences.
fence unsafe:               *_unsafe.go
fence os/exec:              internal/cell internal/cellinit internal/ledger/gen internal/seccomp/headers/refresh internal/mutations/run internal/supply/run matrix/... bench/... examples/... internal/testenv/... tests
fence os.StartProcess:      internal/cell internal/cellinit matrix/... bench/... examples/... internal/testenv/... tests
fence syscall.StartProcess: internal/cell internal/cellinit matrix/... bench/... examples/... internal/testenv/... tests
fence syscall.ForkExec:     internal/cell internal/cellinit matrix/... bench/... examples/... internal/testenv/... tests
fence syscall.Exec:         internal/cellinit matrix/... internal/testenv/... tests
fence golang.org/x/sys/unix.Exec: internal/cellinit internal/seatbelt internal/testenv/... tests
# JSON from outside has one decoder.
fence encoding/json.Unmarshal:  internal/strictjson web/bundle internal/supply/run matrix/... bench/... examples/... internal/testenv/... tests
fence encoding/json.NewDecoder: internal/strictjson internal/ledger/gen internal/supply/... matrix/... examples/... internal/testenv/... tests
fence C:                            nowhere
fence plugin:                       nowhere
fence github.com/nats-io/nats.go/...: internal/queue agent/store/natskv
fence github.com/nats-io/nats-server/...: internal/queue bench tests
never agent/store: net net/http
never internal/queue: net/http
fence github.com/coder/websocket/...: internal/server client tests
fence github.com/getkin/kin-openapi/...: tests
fence github.com/modelcontextprotocol/...: internal/mcpserver examples/... tests
fence github.com/coreos/go-systemd/...: cmd/glovebox
fence github.com/prometheus/...: internal/telemetry
fence github.com/chromedp/...: tests
fence github.com/ebitengine/purego/...: internal/jsc internal/seatbelt
`

// policy is the parsed form of importPolicy.
type policy struct {
	edges  map[string][]string // package -> import patterns
	tests  map[string][]string // package, or "" for all -> import patterns
	never  map[string][]string // package -> import paths
	fences []fence
}

type fence struct {
	name   string // import path, pattern, or IMPORT.FUNC
	places []string
}

func parsePolicy(text string) (*policy, error) {
	p := &policy{edges: map[string][]string{}, tests: map[string][]string{}, never: map[string][]string{}}
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		head, tail, ok := strings.Cut(line, ":")
		words, values := strings.Fields(head), strings.Fields(tail)
		switch {
		case !ok || len(words) == 0 || len(words) > 2:
			return nil, fmt.Errorf("policy line %d: %q", n+1, line)
		case len(words) == 2 && words[0] == "fence":
			p.fences = append(p.fences, fence{words[1], values})
		case len(words) == 2 && words[0] == "never":
			p.never[words[1]] = append(p.never[words[1]], values...)
		case len(words) == 2 && words[0] == "tests":
			p.tests[words[1]] = append(p.tests[words[1]], values...)
		case len(words) == 1 && words[0] == "tests":
			p.tests[""] = append(p.tests[""], values...)
		case len(words) == 1:
			p.edges[words[0]] = append(p.edges[words[0]], values...)
		default:
			return nil, fmt.Errorf("policy line %d: %q", n+1, line)
		}
	}
	return p, nil
}

// matches reports whether an import path or package is covered by a pattern.
func matches(pattern, name string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == base || strings.HasPrefix(name, base+"/")
	}
	return pattern == name
}

func anyMatch(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// under collects what the lines that cover a package say, and whether any does.
func under(lines map[string][]string, pkg string) (values []string, found bool) {
	for head, v := range lines {
		if matches(head, pkg) {
			values, found = append(values, v...), true
		}
	}
	return values, found
}

// unsafeFile is the name of a file that may import unsafe: x_unsafe.go, also
// with a platform or _test behind it.
var unsafeFile = regexp.MustCompile(`_unsafe(_[a-z0-9]+)*\.go$`)

// inPlace reports whether a file lies in one of a fence's places.
func inPlace(places []string, file string) bool {
	dir := path.Dir(file)
	return slices.ContainsFunc(places, func(place string) bool {
		switch place {
		case "nowhere":
			return false
		case "tests":
			return strings.HasSuffix(file, "_test.go")
		case "*_unsafe.go":
			return unsafeFile.MatchString(path.Base(file))
		}
		return matches(place, dir)
	})
}

// check returns one sentence for each breach of the policy in a file, whose
// name is relative to the module's root.
func (p *policy) check(file string, src []byte) ([]string, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	refuse := func(pos token.Pos, format string, args ...any) {
		at := fset.Position(pos)
		found = append(found, fmt.Sprintf("%s:%d: %s", at.Filename, at.Line, fmt.Sprintf(format, args...)))
	}
	pkg := path.Dir(file)
	if _, listed := under(p.edges, pkg); !listed {
		refuse(tree.Package, "package %s has no line in the import policy", pkg)
	}
	names := map[string]string{} // name in the file -> import path
	for _, spec := range tree.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		name := path.Base(imp)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			refuse(spec.Pos(), "dot import of %s hides what is used", imp)
		}
		names[name] = imp
		if why := p.judge(file, pkg, imp); why != "" {
			refuse(spec.Pos(), "%s", why)
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && names[x.Name] != "" {
			full := names[x.Name] + "." + sel.Sel.Name
			for _, f := range p.fences {
				if f.name == full && !inPlace(f.places, file) {
					refuse(sel.Pos(), "%s belongs in %s only", full, strings.Join(f.places, ", "))
				}
			}
		}
		return true
	})
	return found, nil
}

// judge says why one import is refused, or "".
func (p *policy) judge(file, pkg, imp string) string {
	for _, f := range p.fences {
		if matches(f.name, imp) && !inPlace(f.places, file) {
			return fmt.Sprintf("import of %s belongs in %s only", imp, strings.Join(f.places, ", "))
		}
	}
	if never, _ := under(p.never, pkg); slices.Contains(never, imp) {
		return fmt.Sprintf("%s may never import %s", pkg, imp)
	}
	edge := imp
	switch rest, ours := strings.CutPrefix(imp, module+"/"); {
	case imp == module:
		edge = "."
	case ours:
		edge = rest
	case !strings.Contains(strings.Split(imp, "/")[0], "."):
		return "" // the standard library
	}
	allowed, _ := under(p.edges, pkg)
	if strings.HasSuffix(file, "_test.go") {
		more, _ := under(p.tests, pkg)
		allowed = slices.Concat(allowed, more, p.tests[""], []string{pkg})
	}
	if !anyMatch(allowed, edge) {
		return fmt.Sprintf("forbidden edge: %s -> %s", pkg, edge)
	}
	return ""
}

// TestImports reads the import clauses of every Go file, for every platform,
// and holds them against the policy.
func TestImports(t *testing.T) {
	p, err := parsePolicy(importPolicy)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			if name != "." && (base[0] == '.' || base[0] == '_' || base == "testdata" || base == "vendor" || name == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files++
		found, err := p.check(filepath.ToSlash(name), src)
		for _, f := range found {
			t.Error(f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 2 {
		t.Fatalf("read %d Go files: the test does not run at the module's root", files)
	}
}

// TestImportPolicyRefuses is the control: bad files held in memory are refused
// for the reason given, and their harmless neighbours are not.
func TestImportPolicyRefuses(t *testing.T) {
	p, err := parsePolicy(importPolicy)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, file, src, want string }{
		{"mechanism knows the cell", "internal/seccomp/a.go", `import "` + module + `/internal/cell"`, "forbidden edge: internal/seccomp -> internal/cell"},
		{"outside knows the inside", "internal/cell/a.go", `import "` + module + `/internal/cellinit"`, "forbidden edge"},
		{"the cell's tests may", "internal/cell/a_test.go", `import "` + module + `/internal/cellinit"`, ""},
		{"library knows a command", "a.go", `import "` + module + `/cmd/glovebox"`, "forbidden edge: . -> cmd/glovebox"},
		{"foreign module", "internal/cell/a.go", `import "example.com/x"`, "forbidden edge"},
		{"test of its own package", "internal/cgroup/a_test.go", `import "` + module + `/internal/cgroup"`, ""},
		{"unlisted package", "internal/misc/a.go", ``, "no line in the import policy"},
		{"other platform", "internal/cell/a_darwin.go", `import "` + module + `/cmd/glovebox"`, "forbidden edge"},
		{"unsafe anywhere", "internal/cell/a.go", `import "unsafe"`, "belongs in *_unsafe.go only"},
		{"unsafe in its file", "internal/cell/a_unsafe.go", `import "unsafe"`, ""},
		{"unsafe in a test", "internal/cell/a_test.go", `import "unsafe"`, "belongs in"},
		{"unsafe in its test", "internal/cell/a_unsafe_test.go", `import "unsafe"`, ""},
		{"commands start nothing", "cmd/glovebox/a.go", `import "os/exec"`, "import of os/exec belongs in"},
		{"by another name", "a.go", `import x "os"` + "\n" + `var _ = x.StartProcess`, "os.StartProcess belongs in"},
		{"ForkExec", "internal/cgroup/a.go", `import "syscall"` + "\n" + `var _ = syscall.ForkExec`, "syscall.ForkExec belongs in"},
		{"ForkExec in the cell", "internal/cell/a.go", `import "syscall"` + "\n" + `var _ = syscall.ForkExec`, ""},
		{"init handles signals", "internal/cellinit/a.go", `import "os/signal"`, "may never import os/signal"},
		{"its tests too", "internal/cellinit/a_test.go", `import "os/signal"`, "may never import os/signal"},
		{"dot import", "internal/cell/a.go", `import . "os"`, "dot import"},
		{"queue", "cmd/glovebox/a.go", `import "github.com/nats-io/nats.go"`, "belongs in internal/queue, agent/store/natskv only"},
		{"queue in the stores", "agent/store/a.go", `import "github.com/nats-io/nats.go"`, "belongs in internal/queue, agent/store/natskv only"},
		{"queue's client", "agent/store/natskv/a.go", `import "github.com/nats-io/nats.go/jetstream"`, ""},
		{"queue's server", "agent/store/natskv/a.go", `import "github.com/nats-io/nats-server/v2/server"`, "belongs in internal/queue, bench, tests only"},
		{"queue's server in a test", "agent/store/natskv/a_test.go", `import "github.com/nats-io/nats-server/v2/server"`, ""},
		{"websocket", "cmd/glovebox/a.go", `import "github.com/coder/websocket"`, "belongs in internal/server, client, tests only"},
		{"cgo", "internal/cell/a.go", `import "C"`, "belongs in nowhere only"},
		{"lenient decoder", "cmd/glovebox/a.go", `import "encoding/json"` + "\n" + `var _ = json.NewDecoder`, "json.NewDecoder belongs in"},
		{"lenient decoder, shortly", "a.go", `import "encoding/json"` + "\n" + `var _ = json.Unmarshal`, "json.Unmarshal belongs in"},
		{"writing JSON", "a.go", `import "encoding/json"` + "\n" + `var _ = json.Marshal`, ""},
		{"strict decoder", "internal/strictjson/a.go", `import "encoding/json"` + "\n" + `var _ = json.Unmarshal`, ""},
		{"schemas load", "internal/jsonschema/a.go", `import "net/http"`, "may never import net/http"},
		{"data does work", "api/a.go", `import "net/http"`, "may never import net/http"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := p.check(c.file, []byte("package p\n"+c.src+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(found, "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
