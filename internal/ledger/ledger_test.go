package ledger

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestKnown(t *testing.T) {
	for _, id := range []string{"T-01", "T-21", "O-27", "B-18", "G-22", "S-24", "X-27", "P-05", "R-03", "H-1", "H-86"} {
		if !Known(id) {
			t.Errorf("%s is not known", id)
		}
	}
	for _, id := range []string{"T-1", "T-22", "T-00", "H-01", "H-87", "H-0", "Z-01", "O-", "O", "", "O-7x", "O-+7"} {
		if Known(id) {
			t.Errorf("%s is known", id)
		}
	}
}

func TestScan(t *testing.T) {
	root := fstest.MapFS{
		"a/a_test.go": {Data: []byte(`package a
// TestOne does something.
//
// proves O-07 H-43, T-01: with a remark about B-99
func TestOne(t *T) {}

// proves that nothing is read into prose
// proves part of H-7 and of nothing else
// proves O-07
func FuzzTwo(f *F) {}

// proves O-99 T-1
func TestUnknown(t *T) {}

// proves O-08
var x = 1
`)},
		"a/a.go":                {Data: []byte("package a\n// proves O-01\nfunc TestNo() {}\n")},
		"b/testdata/deny.txtar": {Data: []byte("# what it is\n# proves X-03\nexec true\n-- f --\n# proves X-04\n")},
		"vendor/v/v_test.go":    {Data: []byte("package v\n// proves O-02\nfunc TestV(t *T) {}\n")},
	}
	proofs, tests, problems, err := Scan(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a.TestOne": true, "a.TestUnknown": true, "b/testdata/deny.txtar": true, "a.TestNo": false, "v.TestV": false} {
		if tests[name] != want {
			t.Errorf("a test %s: %v, want %v", name, tests[name], want)
		}
	}
	want := map[string][]string{
		"O-07": {"a.FuzzTwo", "a.TestOne"}, "H-43": {"a.TestOne"}, "T-01": {"a.TestOne"}, "X-03": {"b/testdata/deny.txtar"},
		"H-7": {"a.FuzzTwo (in part)"},
	}
	if diff := cmp.Diff(want, proofs); diff != "" {
		t.Errorf("proofs (-want +got):\n%s", diff)
	}
	text := strings.Join(problems, "\n")
	for _, part := range []string{`unknown id "O-99"`, `unknown id "T-1"`, "outside the doc comment"} {
		if !strings.Contains(text, part) {
			t.Errorf("problems lack %q:\n%s", part, text)
		}
	}
	if len(problems) != 3 {
		t.Errorf("%d problems, want 3:\n%s", len(problems), text)
	}
}

func TestProblemsAndPrune(t *testing.T) {
	l := &Ledger{
		Scope: []Claim{{"O-01", "a"}, {"O-02", "b"}, {"O-03", "c"}, {"O-04", "d"}, {"O-05", "e"}, {"O-06", "f"}},
		Proofs: map[string][]string{"O-02": {"p.TestB"}, "O-03": {"p.TestC"}, "O-10": {"p.TestC"}, "H-2": {"p.TestC"},
			"O-05": {"p.TestE (in part)"}, "O-06": {"p.TestF (in part)"}},
		Open: []Row{{"O-05", "being built", "x"}, {"O-01", "being built", "x"}, {"O-02", "being built", "x"}, {"O-03", "partial: v1 only", "x"}},
	}
	text := strings.Join(l.Problems(), "\n")
	if !strings.Contains(text, "lists O-02, which p.TestB proves") || !strings.Contains(text, "O-04 is in docs/scope.txt") ||
		!strings.Contains(text, "O-06 is in docs/scope.txt") || strings.Count(text, "\n") != 2 {
		t.Errorf("problems:\n%s", text)
	}
	l.Prune()
	if len(l.Open) != 3 || slices.ContainsFunc(l.Open, func(r Row) bool { return r.ID == "O-02" }) {
		t.Errorf("after pruning: %v", l.Open)
	}
	if got := string(l.JSON()); strings.Index(got, "O-10") < strings.Index(got, "O-03") || strings.Index(got, "H-2") < strings.Index(got, "O-10") {
		t.Errorf("order of ids:\n%s", got)
	}
	again, err := ParseOpen(string(l.OpenText()))
	if err != nil || !cmp.Equal(again, l.Open) {
		t.Errorf("docs/open.md does not read back: %v %v", again, err)
	}
	l.Open[0].Reason = "by design: so it is"
	held, part, none, design := l.status()
	if ids(held) != "O-02" || ids(part) != "O-03, O-05, O-06" || ids(none) != "O-04" || ids(design) != "O-01" {
		t.Errorf("held %s, in part %s, open %s, by design %s", ids(held), ids(part), ids(none), ids(design))
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"O-99 x", "O-01 x\nO-01 y", "O-01"} {
		if _, err := ParseScope(text); err == nil {
			t.Errorf("scope %q was accepted", text)
		}
	}
	for _, text := range []string{"| O-99 | a | b |", "| O-01 | a | b |\n| O-01 | a | b |", "| O-01 | | b |", "| O-01 | a | |"} {
		if _, err := ParseOpen(text); err == nil {
			t.Errorf("open %q was accepted", text)
		}
	}
}
