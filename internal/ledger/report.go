package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Report is all that docs/security-report.md is made of. Nothing of it is written
// by hand into the report; each part has one source.
type Report struct {
	*Ledger
	Attacks  []Attack
	Losses   []Loss
	Code     []Package
	Modules  []string // linked into the program that is inside of every cell
	Never    [][2]string
	Findings []Finding
	Rejected []Rejected
}

// Attack is one of the red team's battery.
type Attack struct {
	Group, Name string
	Layers      []string // each of which stops it
	// StandIn is what bounds it under "auto" without its one layer; empty: nothing.
	StandIn string
}

// Loss is a layer, and what a host without it loses.
type Loss struct {
	Layer          string
	Missing        string
	Insisted, Runs bool
	Gone, Bound    string
}

// Package is code that must be right for the wall to hold.
type Package struct {
	Path   string
	Lines  int // of Go, without tests, empty lines and comments
	Data   int // lines of embedded files, such as lists of system calls
	Inside bool
}

// Text is the text of docs/security-report.md.
func (r *Report) Text() []byte {
	var b strings.Builder
	held, part, none, design := r.status()
	b.WriteString("# Security report\n\nMade by `make ledger`. Not edited by hand: claims are in `docs/scope.txt`, what is open in `docs/open.md`, and the tests say themselves what they prove.\n")
	r.summary(&b, held, part, none, design)
	r.never(&b)
	r.losses(&b)
	r.attacks(&b)
	r.code(&b)
	r.findings(&b)
	r.rejected(&b)
	for _, section := range []struct {
		title   string
		entries []entry
	}{{"Open", none}, {"Held in part", part}, {"By design", design}, {"Held", held}} {
		fmt.Fprintf(&b, "\n## %s\n\n", section.title)
		for _, e := range section.entries {
			b.WriteString(e.text)
		}
		if len(section.entries) == 0 {
			b.WriteString("Nothing.\n")
		}
	}
	return []byte(b.String())
}

// entry is a claim with all that is known of it.
type entry struct {
	claim Claim
	text  string
}

// status sorts the claims by how they stand.
func (l *Ledger) status() (held, part, none, design []entry) {
	open := map[string]Row{}
	for _, r := range l.Open {
		open[r.ID] = r
	}
	for _, c := range l.Scope {
		row, isOpen := open[c.ID]
		tests := l.Proofs[c.ID]
		text := fmt.Sprintf("- **%s** %s\n", c.ID, c.Text)
		for _, t := range tests {
			text += fmt.Sprintf("  - `%s`%s\n", strings.TrimSuffix(t, inPart), t[len(strings.TrimSuffix(t, inPart)):])
		}
		if isOpen {
			text += fmt.Sprintf("  - Open: %s. Bounded by: %s.\n", strings.TrimSuffix(row.Reason, "."), strings.TrimSuffix(row.Bound, "."))
		}
		e := entry{c, text}
		switch {
		case row.ByDesign():
			design = append(design, e)
		case len(tests) == 0:
			none = append(none, e)
		case isOpen || !l.proved(c.ID):
			part = append(part, e)
		default:
			held = append(held, e)
		}
	}
	return held, part, none, design
}

func ids(entries []entry) string {
	var out []string
	for _, e := range entries {
		out = append(out, e.claim.ID)
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

// summary says the bad news first.
func (r *Report) summary(b *strings.Builder, held, part, none, design []entry) {
	fmt.Fprintf(b, "\n## In short, the bad news first\n\n")
	fmt.Fprintf(b, "- **Open:** %d of %d claims have no test (%s), and %d are held in part only (%s). What is missing of each, and what bounds it, stands below.\n",
		len(none), len(r.Scope), ids(none), len(part), ids(part))
	var heads []string
	for _, n := range r.Never {
		heads = append(heads, lowerFirst(n[0]))
	}
	fmt.Fprintf(b, "- **Never defended:** %s. [SECURITY.md](../SECURITY.md#what-is-not-promised) says what each means.\n", strings.Join(heads, "; "))
	loose := 0
	for _, a := range r.Attacks {
		if len(a.Layers) == 1 && a.StandIn == "" && slices.ContainsFunc(r.Losses, func(l Loss) bool { return l.Runs && l.Layer == a.Layers[0] }) {
			loose++
		}
	}
	fmt.Fprintf(b, "- **`auto` lets go:** %d of the red team's %d attacks are stopped by one layer alone that `auto` does without where a host lacks it. `require`, the default, refuses there.\n", loose, len(r.Attacks))
	lines, data := r.lines()
	fmt.Fprintf(b, "- **Must be right:** %d lines of Go and %d of data, and the kernel's. A mistake in them may be a hole in the wall.\n", lines, data)
	fmt.Fprintf(b, "- **Was wrong:** %d findings on the way to here, each with the test that keeps it mended. There will be more.\n", len(r.Findings))
	fmt.Fprintf(b, "- **Held:** %d claims, each by the tests named below, and %d by design (%s). %d attacks are fired at cells by the tests, each with a control that gets through where the layer that stops it is left out.\n",
		len(held), len(design), ids(design), len(r.Attacks))
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

func (r *Report) never(b *strings.Builder) {
	b.WriteString("\n## What is not defended\n\nFrom [SECURITY.md](../SECURITY.md#what-is-not-promised); the [threat model](threat-model.md#left-open) has what of the machine can be seen.\n\n")
	for _, n := range r.Never {
		fmt.Fprintf(b, "- **%s.** %s\n", n[0], strings.ReplaceAll(n[1], "](docs/", "]("))
	}
}

// losses is what becomes of a host that lacks a layer.
func (r *Report) losses(b *strings.Builder) {
	b.WriteString("\n## What `auto` lets go\n\nFor each layer of the status, what becomes of a host without it. Who refuses names the layer and the narrowest remedy; who runs " +
		"says in the status and in every result that the layer does not hold. Where `auto` refuses, nothing is let go.\n\n")
	b.WriteString("| layer | does not hold on | `require` | `auto` | no longer stopped | what still bounds it |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, l := range r.Losses {
		require, auto := "refuses", "runs"
		if !l.Insisted {
			require = "runs"
		}
		if !l.Runs {
			auto = "refuses"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", l.Layer, l.Missing, require, auto, cmp.Or(l.Gone, "–"), cmp.Or(l.Bound, "–"))
	}
	b.WriteString("\nThe attacks that one layer alone stops:\n\n")
	for _, layer := range r.layers() {
		r.alone(b, layer)
	}
}

// alone lists the attacks that one layer alone stops, those first that nothing
// else bounds.
func (r *Report) alone(b *strings.Builder, layer string) {
	names, n := map[string][]string{}, 0
	for _, a := range r.Attacks {
		if len(a.Layers) == 1 && a.Layers[0] == layer {
			names[a.StandIn] = append(names[a.StandIn], "`"+a.Group+"/"+a.Name+"`")
			n++
		}
	}
	i := slices.IndexFunc(r.Losses, func(l Loss) bool { return l.Layer == layer })
	what := "`auto` refuses without it"
	switch {
	case i < 0:
		what = "part of init, in every mode"
	case r.Losses[i].Runs:
		what = "let go by `auto` on a host without it, unless something stands in"
	}
	var texts []string
	for _, standIn := range slices.Sorted(maps.Keys(names)) {
		text := strings.Join(names[standIn], ", ")
		if standIn != "" {
			text += " (" + standIn + ")"
		}
		texts = append(texts, text)
	}
	fmt.Fprintf(b, "- **%s** (%s; %d): %s\n", layer, what, n, strings.Join(texts, "; "))
}

// layers are those of the status that stop programs, and the red team's further
// ones.
func (r *Report) layers() []string {
	var out []string
	stops := map[string]bool{}
	for _, a := range r.Attacks {
		for _, l := range a.Layers {
			stops[l] = true
		}
	}
	for _, l := range r.Losses {
		if stops[l.Layer] {
			out = append(out, l.Layer)
		}
	}
	for _, l := range slices.Sorted(maps.Keys(stops)) {
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// attacks counts the battery by group and layer.
func (r *Report) attacks(b *strings.Builder) {
	layers := r.layers()
	var groups []string
	for _, a := range r.Attacks {
		if !slices.Contains(groups, a.Group) {
			groups = append(groups, a.Group)
		}
	}
	fmt.Fprintf(b, "\n## Attacks\n\nHow many attacks of each group a layer stops: alone, and after the plus sign together with others, each of which would be enough. "+
		"`glovebox redteam` fires them on a host of yours.\n\n| group | %s | attacks |\n|%s\n", strings.Join(layers, " | "), strings.Repeat(" --- |", len(layers)+2))
	line := func(name string, in func(Attack) bool) {
		fmt.Fprintf(b, "| %s |", name)
		all := 0
		for _, l := range layers {
			alone, with := 0, 0
			for _, a := range r.Attacks {
				switch {
				case !in(a) || !slices.Contains(a.Layers, l):
				case len(a.Layers) == 1:
					alone++
				default:
					with++
				}
			}
			switch {
			case alone+with == 0:
				b.WriteString(" |")
			case with == 0:
				fmt.Fprintf(b, " %d |", alone)
			default:
				fmt.Fprintf(b, " %d+%d |", alone, with)
			}
		}
		for _, a := range r.Attacks {
			if in(a) {
				all++
			}
		}
		fmt.Fprintf(b, " %d |\n", all)
	}
	for _, g := range groups {
		line(g, func(a Attack) bool { return a.Group == g })
	}
	line("all", func(Attack) bool { return true })
}

func (r *Report) lines() (code, data int) {
	for _, p := range r.Code {
		code, data = code+p.Lines, data+p.Data
	}
	return code, data
}

// code is what must be right.
func (r *Report) code(b *strings.Builder) {
	b.WriteString("\n## What must be right\n\nThe packages of this repository that a cell is made by, outside and inside, as they are compiled for Linux on amd64: lines of Go without " +
		"tests, empty lines and comments; and lines of the files that are compiled in, such as the lists of system calls. The kernel, Go's runtime and its standard library come on top.\n\n")
	b.WriteString("| package | inside of a cell | lines of Go | lines of data |\n| --- | --- | --- | --- |\n")
	for _, p := range r.Code {
		inside := ""
		if p.Inside {
			inside = "yes"
		}
		fmt.Fprintf(b, "| %s | %s | %d | %d |\n", p.Path, inside, p.Lines, p.Data)
	}
	code, data := r.lines()
	inside := 0
	for _, p := range r.Code {
		if p.Inside {
			inside += p.Lines
		}
	}
	fmt.Fprintf(b, "| all | %d lines | %d | %d |\n", inside, code, data)
	fmt.Fprintf(b, "\nModules linked into `glovebox-init`, the program inside of every cell: %s.\n", cmp.Or(strings.Join(r.Modules, ", "), "none"))
}

func (r *Report) findings(b *strings.Builder) {
	b.WriteString("\n## Found on the way\n\nWhat attacks, reviews and tests brought to light, newest last, from [CHANGELOG.md](../CHANGELOG.md); `docs/findings.txt` names the tests.\n\n")
	for _, f := range r.Findings {
		fmt.Fprintf(b, "- %s %s: `%s`\n", f.Text, strings.Join(f.IDs, ", "), strings.Join(f.Tests, "`, `"))
	}
}

func (r *Report) rejected(b *strings.Builder) {
	b.WriteString("\n## Rejected after measuring\n\nFrom [rejected.md](rejected.md).\n\n| date | what | measured | instead | source |\n| --- | --- | --- | --- | --- |\n")
	for _, x := range r.Rejected {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", x.Date, x.What, x.Measured, x.Instead, x.Source)
	}
}
