// Package ledger ties the claims of Glovebox to the tests that prove them.
//
// A claim has an id ("O-07") for ever. A test names the ids it proves in its
// doc comment:
//
//	// proves O-07 H-43
//	func TestPipeMemoryIsCharged(t *testing.T) { … }
//
// and a script test (.txtar) in a line "# proves O-07" before its first file. A
// test that shows only a side of a claim says "proves part of O-07": then the
// claim stays open until another test shows the whole.
// From these lines come docs/ledger.json (id to tests) and
// docs/security-report.md. What is claimed is in docs/scope.txt; a claim
// without a test stands in docs/open.md, with the reason and what bounds it.
package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Ledger is the state of the claims.
type Ledger struct {
	Scope  []Claim             // docs/scope.txt, in its order
	Proofs map[string][]string // id to "PACKAGE.TEST" or the path of a script
	Open   []Row               // docs/open.md, in its order
	Tests  map[string]bool     // every test, as in Proofs
}

// Claim is one line of docs/scope.txt.
type Claim struct{ ID, Text string }

// Row is one line of the table in docs/open.md.
type Row struct{ ID, Reason, Bound string }

// Partial reports whether the row stays although tests prove a part of it: its
// reason begins with "partial".
func (r Row) Partial() bool { return strings.HasPrefix(r.Reason, "partial") }

// ByDesign reports whether the row is no lack but a choice: its reason begins with
// "by design".
func (r Row) ByDesign() bool { return strings.HasPrefix(r.Reason, "by design") }

// inPart is behind the name of a test that proves only a part.
const inPart = " (in part)"

// proved reports whether a test proves the whole of a claim.
func (l *Ledger) proved(id string) bool {
	return slices.ContainsFunc(l.Proofs[id], func(test string) bool { return !strings.HasSuffix(test, inPart) })
}

// last is the highest number of each family of ids, and how it is written.
var last = map[string]struct {
	n      int
	padded bool
}{
	"T": {21, true}, "O": {27, true}, "B": {18, true}, "G": {22, true}, "S": {24, true},
	"X": {27, true}, "P": {5, true}, "R": {3, true}, "H": {86, false},
}

// Known reports whether an id exists, written as it should be ("O-07", "H-7").
func Known(id string) bool {
	family, number, _ := strings.Cut(id, "-")
	n, err := strconv.Atoi(number)
	f, ok := last[family]
	if err != nil || !ok || n < 1 || n > f.n {
		return false
	}
	if f.padded {
		return number == fmt.Sprintf("%02d", n)
	}
	return number == strconv.Itoa(n)
}

// families is the order in which ids are listed.
const families = "TOBGSXPRH"

func compareIDs(a, b string) int {
	fa, na, _ := strings.Cut(a, "-")
	fb, nb, _ := strings.Cut(b, "-")
	ia, _ := strconv.Atoi(na)
	ib, _ := strconv.Atoi(nb)
	return cmp.Or(cmp.Compare(strings.Index(families, fa), strings.Index(families, fb)), cmp.Compare(ia, ib), cmp.Compare(a, b))
}

// ParseScope reads docs/scope.txt: an id and its claim on each line, "#" for a
// remark.
func ParseScope(text string) ([]Claim, error) {
	var out []Claim
	seen := map[string]bool{}
	for n, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		id, claim, _ := strings.Cut(line, " ")
		claim = strings.TrimSpace(claim)
		switch {
		case !Known(id):
			return nil, fmt.Errorf("docs/scope.txt:%d: unknown id %q", n+1, id)
		case seen[id]:
			return nil, fmt.Errorf("docs/scope.txt:%d: %s is there twice", n+1, id)
		case claim == "":
			return nil, fmt.Errorf("docs/scope.txt:%d: %s claims nothing", n+1, id)
		}
		seen[id] = true
		out = append(out, Claim{id, claim})
	}
	return out, nil
}

var tableRow = regexp.MustCompile(`^\|\s*([A-Z]-\d+)\s*\|(.*)\|(.*)\|\s*$`)

// ParseOpen reads the table of docs/open.md, lines of "| id | reason | what
// bounds it |". A row with an empty cell is refused.
func ParseOpen(text string) ([]Row, error) {
	var out []Row
	seen := map[string]bool{}
	for n, line := range strings.Split(text, "\n") {
		m := tableRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		r := Row{m[1], strings.TrimSpace(m[2]), strings.TrimSpace(m[3])}
		switch {
		case !Known(r.ID):
			return nil, fmt.Errorf("docs/open.md:%d: unknown id %q", n+1, r.ID)
		case seen[r.ID]:
			return nil, fmt.Errorf("docs/open.md:%d: %s is there twice", n+1, r.ID)
		case r.Reason == "" || r.Bound == "":
			return nil, fmt.Errorf("docs/open.md:%d: %s needs a reason and what bounds it", n+1, r.ID)
		}
		seen[r.ID] = true
		out = append(out, r)
	}
	return out, nil
}

// Problems returns one sentence for each claim in scope that is neither proved
// nor open, and each open row that a test has overtaken.
func (l *Ledger) Problems() []string {
	var out []string
	open := map[string]bool{}
	for _, r := range l.Open {
		open[r.ID] = true
		if l.proved(r.ID) && !r.Partial() {
			out = append(out, fmt.Sprintf("docs/open.md lists %s, which %s proves: make ledger prunes it, unless its reason begins with \"partial\"",
				r.ID, strings.Join(l.Proofs[r.ID], ", ")))
		}
	}
	for _, c := range l.Scope {
		if !l.proved(c.ID) && !open[c.ID] {
			out = append(out, fmt.Sprintf("%s is in docs/scope.txt, but no test proves the whole of it and docs/open.md does not list it", c.ID))
		}
	}
	return out
}

// Prune drops the rows that a test has overtaken, and puts the others in order.
func (l *Ledger) Prune() {
	slices.SortStableFunc(l.Open, func(a, b Row) int { return compareIDs(a.ID, b.ID) })
	l.Open = slices.DeleteFunc(l.Open, func(r Row) bool { return l.proved(r.ID) && !r.Partial() })
}

// JSON is the text of docs/ledger.json: each proved id with its tests.
func (l *Ledger) JSON() []byte {
	ids := slices.SortedFunc(maps.Keys(l.Proofs), compareIDs)
	var b strings.Builder
	b.WriteString("{")
	for i, id := range ids {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n  %q: [", id)
		for j, test := range l.Proofs[id] {
			if j > 0 {
				b.WriteString(",")
			}
			quoted, _ := json.Marshal(test) // a string always encodes
			fmt.Fprintf(&b, "\n    %s", quoted)
		}
		b.WriteString("\n  ]")
	}
	b.WriteString("\n}\n")
	return []byte(b.String())
}

// openHead stands above the table of docs/open.md.
const openHead = `# Open

Every claim of ` + "`docs/scope.txt`" + ` that no test proves as a whole, why, and what bounds the harm until then. A claim leaves this
table when a test names its id; ` + "`make ledger`" + ` takes it out. A row whose reason begins with "partial" stays beside its tests.

| id | reason | what bounds it |
| --- | --- | --- |
`

// OpenText is the text of docs/open.md.
func (l *Ledger) OpenText() []byte {
	var b strings.Builder
	b.WriteString(openHead)
	for _, r := range l.Open {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.ID, r.Reason, r.Bound)
	}
	return []byte(b.String())
}
