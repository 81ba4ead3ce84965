package cell

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// playFiles sends files that were not asked for, or not as it must be.
func playFiles(mode string, say func(cellproto.Type, []byte), raw func([]byte) error) {
	send := func(name, data string, mode uint64, more bool) {
		say(cellproto.TypeArtifact, (&cellproto.Piece{Name: name, Mode: mode, More: more, Data: []byte(data)}).Encode())
	}
	full := strings.Repeat("x", cellproto.MaxPiece)
	switch mode {
	case "files: honest":
		send("a/b", "one", 0o644, true)
		send("a/b", " two", 0o644, false)
		send("a/begun", "half", 0o644, true)
		say(cellproto.TypeRefused, cellproto.Refused{Name: "a/begun", Reason: "no\x1b[2J more"}.Encode())
		say(cellproto.TypeRefused, cellproto.Refused{Name: "a\n\xff", Reason: "odd"}.Encode())
	case "files: not asked for":
		send("c", "x", 0o644, false)
	case "files: twice":
		send("a/b", "x", 0o644, false)
		send("a/b", "y", 0o644, false)
	case "files: leads out":
		send("a/../../etc/passwd", "x", 0o644, false)
	case "files: absolute":
		send("/a/b", "x", 0o644, false)
	case "files: setuid":
		send("a/b", "x", 0o4755, false)
	case "files: another name between":
		send("a/b", "x", 0o644, true)
		send("a/c", "x", 0o644, false)
	case "files: not whole":
		send("a/b", "x", 0o644, true)
	case "files: gone":
		return
	default:
		playMore(mode, full, say, raw)
	}
	say(cellproto.TypeCollected, nil)
}

// playMore sends too much, too little or nothing.
func playMore(mode, full string, say func(cellproto.Type, []byte), raw func([]byte) error) {
	send := func(name, data string, more bool) {
		say(cellproto.TypeArtifact, (&cellproto.Piece{Name: name, Mode: 0o644, More: more, Data: []byte(data)}).Encode())
	}
	switch mode {
	case "files: large":
		for range 300 {
			send("a/b", full, true)
		}
	case "files: room for nothing":
		for i := range 1000 {
			say(cellproto.TypeArtifact, (&cellproto.Piece{Name: "a/" + strings.Repeat("x", i%200+1) + strings.Repeat("y", i/200), Size: 60 << 20}).Encode())
		}
	case "files: many":
		for i := range 1100 {
			send("a/"+strings.Repeat("x", 1+i%200)+strings.Repeat("y", 1+i/200), "", false)
		}
	case "files: empty pieces":
		for range 5000 {
			send("a/b", "", true)
		}
	case "files: refusals":
		for range 1000 {
			say(cellproto.TypeRefused, cellproto.Refused{Name: full[:1000], Reason: full[:1000]}.Encode())
		}
	case "files: long frame":
		_ = raw(cellproto.AppendFrame(nil, cellproto.TypeArtifact, make([]byte, cellproto.MaxPieceFrame+1)))
	case "files: exited again":
		say(cellproto.TypeExited, cellproto.Exited{}.Encode())
	case "files: silent":
		forever()
	case "files: drip":
		for range 100 {
			if raw([]byte{0}) != nil {
				return
			}
			time.Sleep(50 * time.Millisecond) // the drip itself
		}
	}
}

// hostileFiles are the ways in which an init sends files wrongly, and the reason that
// the result gives.
var hostileFiles = map[string]string{
	"files: not asked for":          "a file that was not asked for",
	"files: twice":                  "a file twice",
	"files: leads out":              "a name has a part that is a dot or two",
	"files: absolute":               "a name must be relative",
	"files: setuid":                 "mode 04755",
	"files: another name between":   "more than was asked for",
	"files: not whole":              "a/b is not whole",
	"files: large":                  "more than was asked for",
	"files: room for nothing":       "more than was asked for",
	"files: many":                   "more files than were asked for",
	"files: empty pieces":           "init sends too much",
	"files: refusals":               "too much is refused",
	"files: long frame":             "malformed frame: ",
	"files: exited again":           "an unexpected frame",
	"files: silent":                 "i/o timeout",
	"files: gone":                   "EOF",
	"files: drip":                   "", // whatever is first
	"files: honest, none asked for": "",
}

// What init sends of files is taken only as far as it was asked for and keeps to
// the rules; else none of it is, the program's own end stands, and the host has
// lost neither time nor memory.
//
// proves part of H-4 H-6
func TestHostileFiles(t *testing.T) {
	h, f := openFake(t)
	<-f.taken
	before, files := heap(), openFiles(t)
	for mode, reason := range hostileFiles {
		f.modes <- mode
		j := fakeJob(t, h)
		if mode != "files: honest, none asked for" {
			j.Artifacts = []string{"a/**"}
		}
		begin := time.Now()
		r, err := h.Run(context.Background(), j, Streams{})
		<-f.taken
		if err != nil || r.Verdict != api.OK || len(r.Artifacts) != 0 {
			t.Fatalf("%s: %v %+v", mode, err, r)
		}
		if len(j.Artifacts) > 0 && (len(r.RefusedArtifacts) == 0 || !strings.Contains(r.RefusedArtifacts[len(r.RefusedArtifacts)-1].Reason, reason)) {
			t.Errorf("%s: %v, want %q", mode, r.RefusedArtifacts, reason)
		}
		if took := time.Since(begin); took > settleTime+fakePatience+2*time.Second {
			t.Errorf("%s: %v", mode, took)
		}
	}
	f.modes <- "files: honest"
	j := fakeJob(t, h)
	j.Artifacts = []string{"a/**"}
	r, err := h.Run(context.Background(), j, Streams{})
	<-f.taken
	if err != nil || len(r.Artifacts) != 1 || r.Artifacts[0].Name != "a/b" || string(r.Artifacts[0].Content) != "one two" {
		t.Errorf("%v %+v", err, r)
	}
	if want := []api.RefusedArtifact{{Name: "a/begun", Reason: "no[2J more"}, {Name: `"a\n\xff"`, Reason: "odd"}}; !slices.Equal(r.RefusedArtifacts, want) {
		t.Errorf("%q", r.RefusedArtifacts)
	}
	h.work.Wait()
	if now := openFiles(t); now > files+2 {
		t.Errorf("%d descriptors, %d before", now, files)
	}
	if now := heap(); now > before+32<<20 {
		t.Errorf("heap of %d bytes, %d before", now, before)
	}
}

// Who cancels while a compiler's product is collected reads that it was canceled,
// not that the program could not be compiled.
func TestCancelWhileCollecting(t *testing.T) {
	h, f := openFake(t)
	<-f.taken
	f.modes <- "files: silent"
	j := fakeJob(t, h)
	j.Compile = &Step{Argv: j.Argv, Limits: j.Limits}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	r, err := h.Run(ctx, j, Streams{})
	<-f.taken
	if err != nil || r.Verdict != api.Canceled || r.Message != "" || r.Compile == nil || r.Compile.ExitCode == nil || *r.Compile.ExitCode != 0 {
		t.Errorf("%v %+v", err, r)
	}
}

// When the cell of a compiler that has done its work is lost while its product is
// collected, or sends what it must not, that is Glovebox's own failure: the source is
// not blamed, and what the compiler did is told.
//
// proves part of H-6
func TestProductLost(t *testing.T) {
	h, f := openFake(t)
	<-f.taken
	for mode, says := range map[string]string{"files: gone": "EOF", "files: silent": "i/o timeout", "files: twice": "a file twice", "files: long frame": "malformed"} {
		f.modes <- mode
		j := fakeJob(t, h)
		j.Compile = &Step{Argv: j.Argv, Limits: j.Limits}
		r, err := h.Run(t.Context(), j, Streams{})
		<-f.taken
		if err != nil || r.Verdict != api.SetupFailed || r.Stage != "collect" || !strings.Contains(r.Message, says) || r.Compile == nil || r.Compile.ExitCode == nil || r.ExitCode != nil {
			t.Errorf("%s: %v %+v", mode, err, r)
		}
	}
	// Control: what an honest init refuses is the compiler's own doing.
	f.modes <- "files: honest"
	j := fakeJob(t, h)
	j.Compile = &Step{Argv: j.Argv, Limits: j.Limits}
	r, err := h.Run(t.Context(), j, Streams{})
	<-f.taken
	if err != nil || r.Verdict != api.CompileError || !strings.Contains(r.Message, "a/begun") {
		t.Errorf("an honest refusal: %v %+v", err, r)
	}
}

// A host that closes while a compiler's product is collected does not wait for it,
// and does not blame the source.
func TestCloseWhileCollecting(t *testing.T) {
	h, f := openFake(t)
	<-f.taken
	f.modes <- "files: silent"
	j := fakeJob(t, h)
	j.Compile = &Step{Argv: j.Argv, Limits: j.Limits}
	stop := time.AfterFunc(300*time.Millisecond, func() { _ = h.Close() })
	defer stop.Stop()
	r, err := h.Run(t.Context(), j, Streams{})
	if err != nil || r.Verdict != api.Interrupted || r.Message != "Glovebox was closed" {
		t.Errorf("%v %+v", err, r)
	}
}
