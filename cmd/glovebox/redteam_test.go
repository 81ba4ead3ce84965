package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/glovebox-dev/glovebox/redteam"
)

// Ctrl-C ends a battery between and within attacks, with the status of an
// interrupted run, and leaves nothing.
func TestRedteamInterrupted(t *testing.T) {
	p := prepare(t, "redteam")
	p.begin(t)
	if head := p.line(t); !strings.HasPrefix(head, "GROUP/ATTACK") {
		t.Errorf("the first line is %q", head)
	}
	p.line(t)
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, p.out)
	p.ends(t, exitInterrupted)
	left, err := os.ReadDir("/var/tmp")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), "glovebox-redteam-"+strconv.Itoa(p.Process.Pid)+"-") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// The table says in words what went wrong, names all layers where there is room
// and the first where there is not, and what was not fired.
func TestRedteamTable(t *testing.T) {
	rows := []redteam.Row{
		{Attack: "network/a", Layers: []string{"seccomp", "namespaces", "landlock"}, Stopped: true, Through: true, StoppedBy: "EPERM", MS: 12.3},
		{Attack: "network/longer-name", Layers: []string{"root"}, Reason: "sealed: one\ncontrol: \x1b[31mtwo"},
		{Attack: "network/c", Layers: []string{"root"}, NotFired: "needs c"},
	}
	for _, c := range []struct {
		width int
		want  string
	}{
		{0, `GROUP/ATTACK         LAYER                        STOPPED BY                    CONTROL         MS
network/a            seccomp+namespaces+landlock  EPERM                         got through     12
network/longer-name  root                         NOT STOPPED                   STOPPED TOO      0
  sealed: one
  control: ^[[31mtwo
network/c            root                         not fired: needs c            -                -
`},
		{85, `GROUP/ATTACK         LAYER       STOPPED BY                    CONTROL         MS
network/a            seccomp +2  EPERM                         got through     12
network/longer-name  root        NOT STOPPED                   STOPPED TOO      0
  sealed: one
  control: ^[[31mtwo
network/c            root        not fired: needs c            -                -
`},
	} {
		var b strings.Builder
		table := newAttackTable(&b, rows, c.width)
		for _, r := range rows {
			if err := table.row(r); err != nil {
				t.Fatal(err)
			}
		}
		if b.String() != c.want {
			t.Errorf("width %d:\n%s\nwant:\n%s", c.width, b.String(), c.want)
		}
	}
}
