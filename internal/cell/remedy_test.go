package cell

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// broad are the common answers that open a host or a container altogether.
var broad = []string{
	"--privileged", "seccomp=unconfined", "seccomp:unconfined", "apparmor=unconfined", "apparmor:unconfined", "label=disable",
	"sysctl -w", "apparmor_restrict_unprivileged_userns", "unprivileged_userns_clone", "aa-teardown", "setenforce", "--cap-add",
	"--pid=host", "--cgroupns=host", "chmod 777", "chmod a+",
}

// global are switches for a whole host, which a remedy may name as its last
// choice, with what they cost.
var global = []string{"max_user_namespaces"}

// faults says what is wrong with the text of a remedy.
func faults(text string) []string {
	var out []string
	for _, b := range broad {
		if strings.Contains(text, b) {
			out = append(out, b)
		}
	}
	for _, g := range global {
		last := text[strings.LastIndex(text, ";")+1:]
		if strings.Contains(text, g) && (last == text || !strings.Contains(last, g) || !strings.Contains(last, "every program")) {
			out = append(out, g+" without its cost, or not last")
		}
	}
	return out
}

// No text of Glovebox mends a host by opening it: the broad forms occur in no
// string of the program at all, and a switch of the whole host only as the last
// choice and with its cost.
//
// proves part of H-83
func TestRemediesAreNarrow(t *testing.T) {
	for _, bad := range []string{
		"docker run --privileged", "sysctl -w user.max_user_namespaces=1000", "user.max_user_namespaces above 0",
		"user.max_user_namespaces above 0, for every program; an AppArmor profile", "--security-opt seccomp=unconfined",
	} {
		if len(faults(bad)) == 0 {
			t.Errorf("control: %q is let through", bad)
		}
	}
	remedies := 0
	for _, root := range []string{".", "../cgroup", "../cellinit", "../attest", "../../cmd", "../../api", "../.."} {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && root == "../.." && name != root {
				return skipDir(err, d)
			}
			if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return nil
			}
			tree, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					for _, f := range faults(n.Value) {
						t.Errorf("%s: %s: %s", name, n.Value, f)
					}
				case *ast.ValueSpec:
					if strings.Contains(strings.ToLower(n.Names[0].Name), "remedy") {
						remedies++
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if remedies < 10 {
		t.Errorf("only %d remedies were looked at", remedies)
	}
}

func skipDir(err error, d fs.DirEntry) error {
	if err == nil && d.IsDir() {
		return fs.SkipDir
	}
	return err
}
