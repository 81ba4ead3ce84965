package redteam

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox/api"
)

// ended says how a run ended in a few words: the verdict, its cause or call,
// and the exit status or signal where the program had one.
func ended(r *api.Result) string {
	s := string(r.Verdict)
	for _, more := range []string{r.Cause, r.Syscall} {
		if more != "" {
			s += " " + more
		}
	}
	if r.Verdict == api.OK || r.Verdict == api.Error {
		switch {
		case r.Signal != "":
			s += " " + r.Signal
		case r.ExitCode != nil:
			s += " " + strconv.Itoa(*r.ExitCode)
		}
	}
	return s
}

// judge holds a run against what was expected of it. The error says everything
// that is otherwise.
func (e *expect) judge(s *scene, r *api.Result, beside string) error {
	s.result = r
	var errs []error
	if got := ended(r); !slices.Contains(e.verdicts, got) {
		errs = append(errs, fmt.Errorf("it ended with %q, not %s; stderr %.300q", strings.TrimSpace(got+" "+r.Message), strings.Join(e.verdicts, " or "), r.Stderr))
	}
	if err := s.match(e.lines, r.Stdout); err != nil {
		errs = append(errs, err)
	}
	if err := s.match(e.beside, strings.TrimPrefix(beside, "ready\n")); err != nil {
		errs = append(errs, fmt.Errorf("bystander: %w", err))
	}
	for _, c := range e.host {
		name, text, _ := strings.Cut(c, " ")
		if err := checks[name](s, s.fill(text)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// match compares an output with the lines that are expected: all of them, in
// order, and no other. Words parted by "|" are alternatives, "*" stands for any
// part of a word.
func (s *scene) match(want []string, out string) error {
	got := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if out == "" {
		got = nil
	}
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want):
			return fmt.Errorf("one line too many: %.200q", got[i])
		case i >= len(got):
			return fmt.Errorf("the line %q is missing", want[i])
		case !pattern(want[i], s).MatchString(got[i]):
			return fmt.Errorf("line %d is %.200q, not %q", i+1, got[i], want[i])
		}
	}
	return nil
}

func pattern(want string, s *scene) *regexp.Regexp {
	var words []string
	for _, w := range strings.Split(want, " ") {
		var alts []string
		for _, a := range strings.Split(w, "|") {
			alts = append(alts, strings.ReplaceAll(regexp.QuoteMeta(s.fill(a)), `\*`, `\S*`))
		}
		words = append(words, "(?:"+strings.Join(alts, "|")+")")
	}
	return regexp.MustCompile("^" + strings.Join(words, " ") + "$")
}

var errnoName = regexp.MustCompile(`\bE[A-Z0-9]{2,}\b`)

// answer is what the kernel said to an attack, in a few words.
func (a *attack) answer(r *api.Result) string {
	switch r.Verdict {
	case api.Denied:
		return "ended at " + r.Syscall
	case api.MemoryLimit:
		return "oom kill"
	case api.Timeout, api.OutputLimit, api.CompileError:
		return ended(r)
	case api.Error:
		if r.Signal != "" {
			return r.Signal
		}
	}
	var names []string
	for _, n := range errnoName.FindAllString(r.Stdout, -1) {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	switch {
	case len(names) > 3:
		return strings.Join(names[:3], " ") + " …"
	case len(names) > 0:
		return strings.Join(names, " ")
	case len(a.sealed.host) > 0:
		return "host: " + a.sealed.host[0]
	}
	return "the host's fact is not there"
}
