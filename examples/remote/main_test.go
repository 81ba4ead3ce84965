package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/service"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// TestRemoteAsRoot: what a service has run comes back, line for line, and the file.
//
// proves part of T-15
func TestRemoteAsRoot(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := service.Options{Dir: filepath.Join(t.TempDir(), "data"), Listeners: []net.Listener{l}}
	o.Box.InitPath = testenv.Init()
	s, err := service.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out := testenv.Output(t, testenv.Built(t, "./examples/remote"), "http://"+l.Addr().String())
	var printed strings.Builder
	for line := range strings.Lines(out) {
		if text, ok := strings.CutPrefix(line, `stdout: "`); ok {
			printed.WriteString(strings.ReplaceAll(strings.TrimSuffix(text, "\"\n"), `\n`, "\n"))
		}
	}
	if want := "so far 0\nso far 10\nso far 30\nso far 60\n"; printed.String() != want {
		t.Errorf("%q, not %q", printed.String(), want)
	}
	if !strings.HasSuffix(out, "verdict: ok\ntotal.txt: 60\n") {
		t.Error(out)
	}
}
