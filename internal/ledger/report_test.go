package ledger

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The report counts what it is given, the bad news first.
func TestReport(t *testing.T) {
	r := &Report{
		Ledger: &Ledger{
			Scope:  []Claim{{"O-01", "a"}, {"O-02", "b"}, {"O-03", "c"}, {"O-04", "d"}},
			Proofs: map[string][]string{"O-01": {"p.TestA"}, "O-02": {"p.TestB (in part)"}},
			Open:   []Row{{"O-02", "partial: half", "x"}, {"O-03", "being built", "y"}, {"O-04", "by design: so it is", "-"}},
		},
		Attacks: []Attack{
			{Group: "g", Name: "one", Layers: []string{"glass"}}, {Group: "g", Name: "two", Layers: []string{"glass", "steel"}},
			{Group: "h", Name: "three", Layers: []string{"steel"}}, {Group: "h", Name: "four", Layers: []string{"glass"}, StandIn: "tape"},
		},
		Losses: []Loss{{Layer: "steel", Missing: "no mill", Insisted: true}, {Layer: "glass", Missing: "no sand", Insisted: true, Runs: true, Gone: "wind", Bound: "rain"}},
		Code:   []Package{{"in", 10, 1, true}, {"out", 5, 0, false}}, Modules: []string{"m v1"},
		Never:    [][2]string{{"Glass breaks", "It does, see [x](docs/x.md)."}},
		Findings: []Finding{{"It broke.", []string{"O-01"}, []string{"p.TestA"}}},
		Rejected: []Rejected{{"2026-01-01", "paper", "tore", "glass", "me"}},
	}
	text := string(r.Text())
	last := 0
	for _, part := range []string{
		"**Open:** 1 of 4 claims have no test (O-03), and 1 are held in part only (O-02)", "**Never defended:** glass breaks.",
		"**`auto` lets go:** 1 of the red team's 4 attacks", "**Must be right:** 15 lines of Go and 1 of data", "**Was wrong:** 1 findings",
		"**Held:** 1 claims, each by the tests named below, and 1 by design (O-04)", "- **Glass breaks.** It does, see [x](x.md).",
		"| steel | no mill | refuses | refuses | – | – |\n| glass | no sand | refuses | runs | wind | rain |",
		"- **steel** (`auto` refuses without it; 1): `h/three`\n", "unless something stands in; 2): `g/one`; `h/four` (tape)\n",
		"| group | steel | glass | attacks |", "| g | 0+1 | 1+1 | 2 |\n| h | 1 | 1 | 2 |\n| all | 1+1 | 2+1 | 4 |", "| in | yes | 10 | 1 |",
		"| all | 10 lines | 15 | 1 |", "every cell: m v1.", "- It broke. O-01: `p.TestA`", "| 2026-01-01 | paper | tore | glass | me |",
		"## Open\n\n- **O-03**", "## Held in part\n\n- **O-02**", "## By design\n\n- **O-04**", "## Held\n\n- **O-01**",
	} {
		at := strings.Index(text, part)
		if at < last {
			t.Errorf("%q is at %d, after %d", part, at, last)
		}
		last = max(last, at)
	}
	if t.Failed() {
		t.Log(text)
	}
}

// Each line of the changelog's security has its finding, with ids and tests that
// exist, and each finding its line.
func TestParseFindings(t *testing.T) {
	const log = "# C\n### Security\nProse:\n- One was\n  wrong.\n- Two too.\n### Added\n- Three.\n"
	known := func(test string) bool { return test == "p.TestA" }
	got, err := ParseFindings("# remark\nOne was\nO-01 p.TestA\n\nTwo\nH-7 p.TestA\n", log, known)
	want := []Finding{{"One was wrong.", []string{"O-01"}, []string{"p.TestA"}}, {"Two too.", []string{"H-7"}, []string{"p.TestA"}}}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for text, part := range map[string]string{
		"One\nO-01 p.TestA": "nothing of \"Two", "One\nO-01 p.TestA\nTwo\nO-01 p.TestA\nThree\nO-01 p.TestA": "begins with \"Three",
		"One\nO-01 p.TestB\nTwo\nO-01 p.TestA": "neither", "One\nO-01\nTwo\nO-01 p.TestA": "missing", "One\np.TestA": "missing",
		"One\nO-01 p.TestA\nOne\nO-01 p.TestA": "two findings have it", "One\nO-01 p.TestA\nTwo": "nothing of",
	} {
		if _, err := ParseFindings(text, log, known); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", text, err, part)
		}
	}
}

func TestParseRejected(t *testing.T) {
	got, err := ParseRejected("# R\n| date | a | b | c | d |\n| --- | --- | --- | --- | --- |\n| 2026-01-02 | a | b | c | d |\n")
	if want := []Rejected{{"2026-01-02", "a", "b", "c", "d"}}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "| 2026-01-02 | a | | c | d |"} {
		if _, err := ParseRejected(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestNotPromised(t *testing.T) {
	got, err := NotPromised("# S\n## What is not promised\n- **One.** It is\n  so.\n- **Two** too.\n\n## Else\n- **No.**\n")
	if want := [][2]string{{"One", "It is so."}, {"Two", "too."}}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "\n## What is not promised\nprose\n", "\n## What is not promised\n- plain\n"} {
		if _, err := NotPromised(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestCodeLines(t *testing.T) {
	for src, want := range map[string]int{
		"": 0, "// remark\n\n": 0, "package a\n": 1, "package a // remark\n\n/* two\nlines */\nvar x = 1; var y = 2\n": 2,
		"package a\nvar s = `one\n\nthree`\n": 4, "package a\nvar s = \"//\"\n": 2, "package a\nfunc f() {\n\t// no\n}\n": 3,
	} {
		if got := CodeLines([]byte(src)); got != want {
			t.Errorf("%q: %d lines, want %d", src, got, want)
		}
	}
}
