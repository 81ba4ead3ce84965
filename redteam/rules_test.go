package redteam

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// Every file of the battery is whole: known keys, known layers and checks, a
// control that lacks the layers that it names and no other, and ids of the list
// of claims.
func TestFiles(t *testing.T) {
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	scope, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "scope.txt"))
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]bool{}
	for _, a := range all {
		for _, id := range a.ids {
			if !regexp.MustCompile(`(?m)^` + id + ` `).Match(scope) {
				t.Errorf("%s: id %s is not in docs/scope.txt", a.id(), id)
			}
		}
		if claims[a.claim] {
			t.Errorf("%s: two attacks have its claim", a.id())
		}
		claims[a.claim] = true
	}
}

// The battery has its shape: groups, few single calls, and for each layer
// attacks that no other layer stops.
func TestShape(t *testing.T) {
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	perGroup, alone, single := map[string]int{}, map[string]int{}, 0
	for _, a := range all {
		perGroup[a.group]++
		if len(a.layers) == 1 {
			alone[a.layers[0]]++
		}
		if a.single {
			single++
		} else if text := string(a.files[0].data); strings.Count(text, "say(") == 1 && !several.MatchString(text) {
			t.Errorf("%s makes one call and is not marked as single", a.id())
		}
	}
	t.Logf("%d attacks, %d of one call; by group %v; by the layer that alone stops it %v", len(all), single, perGroup, alone)
	if len(all) < leastAttacks {
		t.Errorf("%d attacks, want %d", len(all), leastAttacks)
	}
	if single > 30 {
		t.Errorf("%d attacks are a single system call, at most 30 may be", single)
	}
	for _, g := range groups {
		if perGroup[g] < leastInGroup {
			t.Errorf("group %s has %d attacks, want %d", g, perGroup[g], leastInGroup)
		}
	}
	for _, l := range mainLayers {
		if alone[l] < leastAlone {
			t.Errorf("layer %s alone stops %d attacks, want %d", l, alone[l], leastAlone)
		}
	}
}

// several are signs of a program that does more than it says.
var several = regexp.MustCompile(`\b(for|while|def|fork|shmat|raise_to)\b|asm|connection|bind|poll`)

// mainLayers are those of the status that stop programs.
var mainLayers = []string{"namespaces", "root", "proc", "landlock", "seccomp", "cgroup", "rlimits", "privileges"}

const whole = `claim: A thing does not happen.
id: O-17
layer: landlock
reaches: own
language: sh
said: x ENOENT
off: landlock
through: x OK
-- main.sh --
true
`

// A file that is not whole is refused, by what is wrong with it.
func TestParseRefuses(t *testing.T) {
	if _, err := parse("network", "x", []byte(whole)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"claim: A thing does not happen.", "claim: A thing", "full stop"},
		{"claim: A thing does not happen.\n", "", "claim"},
		{"id: O-17\n", "", "id: is missing"},
		{"layer: landlock\n", "", "layer: is missing"},
		{"layer: landlock", "layer: paint", "there is no \"paint\""},
		{"layer: landlock", "layer: seccomp", "the control keeps it"},
		{"reaches: own\n", "", "reaches: is missing"},
		{"reaches: own", "reaches: passwords", "there is no \"passwords\""},
		{"reaches: own", "reaches: canary", "does not fit"},
		{"off: landlock", "off: landlock seccomp", "not among the layers"},
		{"off: landlock", "off: door", "there is no \"door\""},
		{"off: landlock\n", "", "off: is missing"},
		{"language: sh", "language: cobol", "not python, sh or c"},
		{"said: x ENOENT\n", "", "nothing is expected of the sealed run"},
		{"through: x OK\n", "", "nothing tells the control from"},
		{"said:", "says:", "unknown key"},
		{"said: x ENOENT", "said:", "is empty"},
		{"said: x ENOENT", "host: moon-full", "no check"},
		{"said: x ENOENT", "fixture: moon", "no \"moon\""},
		{"said: x ENOENT", "sealed: fine", "no verdict"},
		{"said: x ENOENT", "limits: memory=lots", "is no limit"},
		{"said: x ENOENT", "limits: love=1", "there is no limit"},
		{"said: x ENOENT", "network: wide", "not one of"},
		{"-- main.sh --\ntrue\n", "", "there is no program"},
	} {
		text := strings.Replace(whole, c.old, c.new, 1)
		_, err := parse("network", "x", []byte(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q for %q: %v, want %q", c.new, c.old, err, c.want)
		}
	}
	if _, err := parse("network", "Bad_name", []byte(whole)); err == nil {
		t.Error("a bad name")
	}
}

// The judge takes an output for what it is: all lines, in order, no other.
func TestMatch(t *testing.T) {
	s := &scene{values: map[string]string{"v": "a.b"}}
	for _, c := range []struct {
		want, out string
		ok        bool
	}{
		{"x EPERM", "x EPERM\n", true}, {"x EPERM|EACCES", "x EACCES\n", true}, {"x EPERM", "x EACCES\n", false},
		{"x EPERM", "x EPERM\nmore\n", false}, {"x EPERM\ny OK", "x EPERM\n", false}, {"x {v}", "x a.b\n", true}, {"x {v}", "x acb\n", false},
		{"x *", "x anything\n", true}, {"x *", "x two words\n", false}, {"x", "", false}, {"", "x\n", false}, {"x EPERM", "xx EPERM\n", false},
	} {
		var want []string
		if c.want != "" {
			want = strings.Split(c.want, "\n")
		}
		if err := s.match(want, c.out); (err == nil) != c.ok {
			t.Errorf("%q with %q: %v", c.want, c.out, err)
		}
	}
}

// No user's program gets to run without a layer: this is the only package beside
// the tests from which one can be left out, what it takes from outside has no place for
// a program or a layer, and it reads no file of attacks but those in it.
//
// proves part of T-04
func TestOnlyTheBatteryLacksALayer(t *testing.T) {
	root := testenv.Root()
	may := []string{"redteam/fire.go", "glovebox.go", "internal/cell/config.go", "internal/cell/host.go"}
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() && (strings.HasPrefix(d.Name(), ".") || d.Name() == "vendor") && name != root {
			return filepath.SkipDir
		}
		rel, _ := filepath.Rel(root, name)
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if strings.Contains(string(text), "ControlOff") && !slices.Contains(may, rel) {
			t.Errorf("%s speaks of ControlOff", rel)
		}
		if strings.HasPrefix(rel, "redteam/") && regexp.MustCompile(`os\.(ReadDir|Open|Getenv|LookupEnv)\(`).Match(text) && rel != "redteam/scene.go" {
			t.Errorf("%s reads from outside", rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "redteam", "fire.go"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "ControlOff"); n != 1 {
		t.Errorf("ControlOff is set in %d places, want 1", n)
	}
	checkExported(t)
}

// What the battery has to have.
const (
	leastAttacks = 120
	leastInGroup = 5
	leastAlone   = 8
)
