//go:build linux

package cells

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/matrix"
)

// unavailable is the exit status of a command whose sandbox is not available.
const unavailable = 4

// notInsisted are the layers that a complete host may lack.
var notInsisted = []string{"time", "speculation"}

// missing are the layers that do not hold and should.
func missing(layers []api.Layer) []string {
	out := []string{}
	for _, l := range layers {
		if !l.Applied && !slices.Contains(notInsisted, l.Name) {
			out = append(out, l.Name)
		}
	}
	slices.Sort(out)
	return out
}

// agree checks that status, require and auto say the same of a machine, and what
// the table expects: the layers that it lacks, and whether auto refuses.
func (r *Result) agree(steps []step, outputs []matrix.Output, user bool, lacks []string, refuses bool) {
	who := ""
	if user {
		who = "as a user: "
	}
	var status api.Status
	for i, s := range steps {
		o := outputs[i]
		if s.user != user {
			continue
		}
		var err error
		switch s.kind {
		case askStatus:
			if err = json.Unmarshal(o.Stdout, &status); err == nil {
				err = checkStatus(status, o, lacks)
			}
			if !user {
				r.Release, r.Machine, r.User, r.Layers = status.Kernel, status.Arch, status.User, status.Layers
			}
		case askRequire:
			var said string
			said, err = checkRun(status, o, true, !status.Complete)
			set(&r.Require, said, user)
		case askAuto:
			var said string
			said, err = checkRun(status, o, false, refuses)
			set(&r.Auto, said, user)
		case askRedteam:
			_, err = checkRefusal(status, o)
		}
		if err != nil {
			r.fail("%s%s: %v", who, s.what, err)
		}
	}
}

// set keeps what a mode did, of both identities where there are two.
func set(to *string, said string, user bool) {
	if user {
		said = *to + "; user " + said
	}
	*to = said
}

// checkStatus holds the status against the table and itself.
func checkStatus(s api.Status, o matrix.Output, lacks []string) error {
	want := slices.Sorted(slices.Values(lacks))
	got := missing(s.Layers)
	switch {
	case len(s.Layers) == 0:
		return fmt.Errorf("no layers: %.300s", o.Stderr)
	case s.Complete != (len(got) == 0):
		return fmt.Errorf("complete is %v, and missing are %q", s.Complete, got)
	case s.Complete != (o.ExitCode == 0):
		return fmt.Errorf("complete is %v, and the exit status %d", s.Complete, o.ExitCode)
	case !lacksAll(got, want):
		return fmt.Errorf("missing are %q, not %q", got, want)
	}
	return nil
}

// lacksAll wants exactly these layers to be missing. Where no namespaces can be
// had nothing of a cell could be tried, so that others may be missing too.
func lacksAll(got, want []string) bool {
	if slices.Contains(want, "namespaces") {
		return slices.Contains(got, "namespaces")
	}
	return slices.Equal(got, want)
}

// checkRun checks that a mode ran the program, with the layers of the status in
// the result, or refused it and named a layer that the status says is missing.
func checkRun(s api.Status, o matrix.Output, require, refuses bool) (string, error) {
	if refuses {
		name, err := checkRefusal(s, o)
		return "refuses: " + name, err
	}
	var res api.Result
	if err := json.Unmarshal(o.Stdout, &res); err != nil {
		return "refuses", fmt.Errorf("it does not run: exit status %d, %.500s", o.ExitCode, o.Stderr)
	}
	got, want := missing(res.Evidence.Layers), missing(s.Layers)
	switch {
	case o.ExitCode != 0 || res.Verdict != api.OK:
		return "fails", fmt.Errorf("verdict %s, exit status %d, %s", res.Verdict, o.ExitCode, res.Message)
	case require && len(got) > 0:
		return "runs", fmt.Errorf("require runs without %q", got)
	case !slices.Equal(got, want):
		return "runs", fmt.Errorf("the result lacks %q, the status %q", got, want)
	}
	if len(got) > 0 {
		return "runs without " + strings.Join(got, ", "), nil
	}
	return "runs", nil
}

// checkRefusal wants the exit status of a missing sandbox, nothing on stdout, and
// the name of a layer that the status says is missing.
func checkRefusal(s api.Status, o matrix.Output) (string, error) {
	if o.ExitCode != unavailable || len(o.Stdout) > 0 {
		return "", fmt.Errorf("it does not refuse: exit status %d, stdout %.200q, stderr %.300q", o.ExitCode, o.Stdout, o.Stderr)
	}
	for _, l := range missing(s.Layers) {
		if strings.Contains(string(o.Stderr), l+" does not hold") {
			return l, nil
		}
	}
	return "", fmt.Errorf("%.300q names none of the missing layers %q", o.Stderr, missing(s.Layers))
}
