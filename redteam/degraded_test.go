package redteam

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// On a host that lacks a layer the command fires nothing. What auto runs there is
// attacked here: every attack that another layer stops is stopped, and its
// control gets through. The package matrix reads the line of the report, and
// picks attacks with GLOVEBOX_TEST_ATTACKS.
//
// proves part of T-16
func TestOnVMDegraded(t *testing.T) {
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if all, err = pick(all, os.Getenv("GLOVEBOX_TEST_ATTACKS")); err != nil {
		t.Fatal(err)
	}
	r, err := open(testenv.Init(), cell.Auto)
	if err != nil {
		t.Fatal(err)
	}
	if r.whole.Status().Complete {
		t.Error("every layer holds on this host")
	}
	for i, a := range all {
		all[i] = byAnyLayer(a)
	}
	report, err := r.fireAll(t.Context(), all, func(row Row) {
		if row.NotFired == "" && !row.Good() {
			t.Errorf("%s: stopped %v, control got through %v: %s", row.Attack, row.Stopped, row.Through, row.Reason)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Attacks == 0 {
		t.Error("no attack was fired")
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("redteam: %s\n", text)
}

// byAnyLayer is an attack that may be refused with any error number, where its
// control hears none: where the layer that answers first is missing, the next one
// answers, with its own.
func byAnyLayer(a *attack) *attack {
	as := *a
	as.sealed.lines = slices.Clone(a.sealed.lines)
	for i, line := range as.sealed.lines {
		words := strings.Split(line, " ")
		for j, w := range words {
			if errnoName.MatchString(w) && i < len(a.control.lines) && !errnoName.MatchString(a.control.lines[i]) {
				words[j] = "E*"
			}
		}
		as.sealed.lines[i] = strings.Join(words, " ")
	}
	return &as
}

// What got through is never taken for a refusal, whichever layer answers.
func TestByAnyLayer(t *testing.T) {
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		as := byAnyLayer(a)
		if len(a.sealed.lines) == 0 || len(a.sealed.lines) != len(a.control.lines) || slices.Equal(a.sealed.lines, a.control.lines) {
			continue // the verdict, another number of lines, or the host tells
		}
		s := &scene{values: map[string]string{}}
		if s.match(as.sealed.lines, strings.Join(a.control.lines, "\n")+"\n") == nil {
			t.Errorf("%s: %q would be taken for %q", a.id(), a.control.lines, as.sealed.lines)
		}
		if err := s.match(as.sealed.lines, strings.ReplaceAll(strings.Join(a.sealed.lines, "\n"), "|", " ")+"\n"); err != nil && !strings.Contains(strings.Join(a.sealed.lines, ""), "|") {
			t.Errorf("%s: its own answer is not taken: %v", a.id(), err)
		}
	}
}
