//go:build linux

package matrix

import (
	"bytes"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/matrix/job"
)

// stream is what a machine would send.
func stream(t *testing.T, frames ...job.Frame) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := job.NewWriter(&b)
	for _, f := range frames {
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	return &b
}

func TestCollect(t *testing.T) {
	hello := job.Frame{Kind: job.Hello, Text: "6.1.0-test"}
	data := job.Frame{Kind: job.Data, Command: 1, Data: []byte("out")}
	exit := job.Frame{Kind: job.Exit, Command: 1, Code: 3}
	done := job.Frame{Kind: job.Done}
	for _, tt := range []struct {
		name   string
		frames []job.Frame
		wrong  string
	}{
		{"whole", []job.Frame{hello, data, exit, done}, ""},
		{"no end", []job.Frame{hello, data, exit}, "before it was done"},
		{"complaint", []job.Frame{hello, {Kind: job.Note, Text: "no swap"}}, "before it was done: no swap"},
		{"nothing", nil, "before it was done"},
		{"another kernel", []job.Frame{{Kind: job.Hello, Text: "6.18.1"}, done}, "instead of release 6.1.0-test"},
		{"no greeting", []job.Frame{done}, "instead of release"},
		{"unknown command", []job.Frame{hello, {Kind: job.Data, Command: 2}}, "command 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := make([]Output, 2)
			vm := VM{Kernel: Kernel{Release: "6.1.0-test"}}
			err := vm.collect(stream(t, tt.frames...), out, func() {})
			switch {
			case tt.wrong == "" && err != nil:
				t.Fatal(err)
			case tt.wrong != "":
				if err == nil || !strings.Contains(err.Error(), tt.wrong) {
					t.Fatalf("got %v, want %q", err, tt.wrong)
				}
				return
			}
			if string(out[1].Stdout) != "out" || out[1].ExitCode != 3 {
				t.Errorf("got %+v", out[1])
			}
		})
	}
}
