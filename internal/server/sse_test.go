package server_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/server"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// A run that is over, one that is watched from its start and one that is joined show
// the same: everything, in order, with numbers that grow, and an end.
//
// proves part of X-16
func TestEventsReplay(t *testing.T) {
	p := openPlace(t, nil)
	live := p.submit("", python("import time\nfor i in range(5): print('line', i, flush=True); time.sleep(0.1)\n"))
	watched := p.events(live.ID).all()
	late := p.events(live.ID).all()
	first := watched[0]
	if first.kind == "queued" {
		if first.frame.Position == nil || *first.frame.Position != 0 || first.id != "" {
			t.Errorf("%+v", first)
		}
	}
	for name, all := range map[string][]*sseEvent{"live": watched, "late": late} {
		out, types := output(framesOf(all))
		if out != "line 0\nline 1\nline 2\nline 3\nline 4\n" {
			t.Errorf("%s: %q", name, out)
		}
		if types[0] == "queued" && name == "live" {
			types = types[1:]
		}
		if !slices.Equal(types, []string{"started", "chunk", "finished"}) {
			t.Errorf("%s: %v", name, types)
		}
		seq := uint64(0)
		for _, e := range all {
			if e.kind == "" || e.kind == "queued" {
				continue
			}
			if e.frame.Seq <= seq || e.id != strconv.FormatUint(e.frame.Seq, 10) || e.frame.Type != e.kind {
				t.Errorf("%s: %+v", name, e)
			}
			seq = e.frame.Seq
		}
		if last := all[len(all)-1].frame; last.Result == nil || last.Result.Verdict != api.OK || last.Result.ID != live.ID || last.Result.Stdout != out {
			t.Errorf("%s: %+v", name, last)
		}
	}
}

// A stream goes on behind any event, with exactly what follows it.
//
// proves part of X-16
func TestEventsResume(t *testing.T) {
	p := openPlace(t, nil)
	run := p.submit("?wait=20s", python("import time\nfor i in range(8): print(i, flush=True); time.sleep(0.02)\n"))
	all := p.events(run.ID).all()
	for i, e := range all[:len(all)-1] {
		for _, how := range [][]string{{"Last-Event-ID", e.id}} {
			rest := p.events(run.ID, how...).all()
			if len(rest) != len(all)-i-1 || rest[0].id != all[i+1].id {
				t.Errorf("after %s: %d events, want %d", e.id, len(rest), len(all)-i-1)
			}
		}
	}
	if code, text := p.ask("GET", "/v1/runs/"+run.ID+"/events", nil, "Last-Event-ID", all[len(all)-1].id); code != 204 || text != "" {
		t.Errorf("behind the last event: %d %q", code, text)
	}
	if code, text := p.ask("GET", "/v1/runs/"+run.ID+"/events?after="+all[len(all)-1].id, nil); code != 204 || text != "" {
		t.Errorf("after the last event: %d %q", code, text)
	}
}

// The header that resumes is a number of this run in its one form, or refused; so is
// whatever the query says besides. Nothing of it reaches a subject.
//
// proves part of H-72 X-08
func TestEventsResumeForms(t *testing.T) {
	p := openPlace(t, nil)
	run := p.submit("?wait=20s", command("/bin/true"))
	longer := p.submit("?wait=20s", python("import time\nfor i in range(20): print(i, flush=True); time.sleep(0.01)\n"))
	foreign := p.events(longer.ID).all()
	path := "/v1/runs/" + run.ID + "/events"
	for _, id := range []string{"", "*", ">", "01", "+1", "-1", "1 2", " ", "1.0", "0x1", "1e0", "²", "18446744073709551616", "ev." + run.ID, run.ID, longer.ID + ".1", foreign[len(foreign)-1].id} {
		if code, text := p.ask("GET", path, nil, "Last-Event-ID", id); code != 400 || !strings.Contains(text, `"bad_field"`) {
			t.Errorf("Last-Event-ID %q: %d %s", id, code, text)
		}
	}
	if code, _ := p.ask("GET", path, nil, "Last-Event-ID", "1", "Last-Event-ID", "1"); code != 400 {
		t.Errorf("twice: %d", code)
	}
	for _, q := range []string{"after=", "after=*", "after=01", "after=1&after=1", "wait=1s", "after=1&x=", "after=99999", "after=%zz"} {
		if code, _ := p.ask("GET", path+"?"+q, nil); code != 400 {
			t.Errorf("?%s: %d", q, code)
		}
	}
	for _, id := range []string{strings.Repeat("0", 32), "*", ">", "ev.x", strings.ToUpper(run.ID), run.ID + "0"} {
		if code, _ := p.ask("GET", "/v1/runs/"+id+"/events", nil); code != 404 {
			t.Errorf("the run %q: %d", id, code)
		}
	}
	if code, text := p.ask("GET", path, nil, "Last-Event-ID", "1"); code != 200 || !strings.Contains(text, "event: finished\n") {
		t.Errorf("control: %d %s", code, text) // the same request with a number of this run
	}
}

// A run that waits says how many are before it, again when that changes, and then
// goes on in the same stream.
//
// proves part of X-17
func TestEventsPosition(t *testing.T) {
	p := openPlace(t, func(o *service.Options) { o.Slots = 1 })
	holders := []api.Run{p.submit("", command("/bin/sleep", "50")), p.submit("", command("/bin/sleep", "50"))}
	last := p.submit("", command("/bin/echo", "done"))
	s := p.events(last.ID)
	if e := s.next(); e.kind != "queued" || e.id != "" || e.frame.Position == nil || *e.frame.Position != 1 {
		t.Fatalf("%+v", e)
	}
	cancel := func(r api.Run) {
		if code, text := p.ask("DELETE", "/v1/runs/"+r.ID, nil, "Glovebox-Owner", r.OwnerToken); code != 200 && code != 202 {
			t.Fatalf("%d %s", code, text)
		}
	}
	cancel(holders[0])
	if e := s.next(); e.kind != "queued" || *e.frame.Position != 0 {
		t.Fatalf("%+v", e)
	}
	cancel(holders[1])
	if out, types := output(framesOf(s.all())); out != "done\n" || !slices.Equal(types, []string{"started", "chunk", "finished"}) {
		t.Errorf("%q %v", out, types)
	}
}

// What is compiled shows its compiler's start, its end and then the program's own start.
//
// proves part of X-16
func TestEventsCompiled(t *testing.T) {
	p := openPlace(t, nil)
	sub := python("int puts(const char *); int main(void) { puts(\"compiled\"); return 0; }\n")
	sub.Language = "c"
	run := p.submit("", sub)
	out, types := output(framesOf(p.events(run.ID).all()))
	if types[0] == "queued" {
		types = types[1:]
	}
	if out != "compiled\n" || !slices.Equal(types, []string{"compiling", "compiled", "started", "chunk", "finished"}) {
		t.Errorf("%q %v", out, types)
	}
}

// A result that is too large for an event is streamed from where it lies, and is the
// same as over GET. Lines of a guest are no lines of the stream.
//
// proves part of X-16
func TestEventsLarge(t *testing.T) {
	p := openPlace(t, nil)
	run := p.submit("?wait=30s", python("import sys\nsys.stdout.write('\\u2028\\r\\nevent: finished\\ndata: {}\\n\\n' + 'x\"\\x01' * 200000)\n"))
	want := p.end(run.ID)
	all := p.events(run.ID).all()
	out, _ := output(framesOf(all))
	got := all[len(all)-1].frame.Result
	if got == nil || got.Stdout != want.Stdout || out != want.Stdout || len(out) < 600_000 {
		t.Errorf("%d bytes in chunks, %d in the result, result %v", len(out), len(want.Stdout), got != nil)
	}
}

// A stream with nothing to say shows a sign of life, and is there still.
//
// proves part of X-16
func TestEventsHeartbeat(t *testing.T) {
	p := openPlace(t, func(o *service.Options) { server.SetHeartbeat(&o.Server, 50*time.Millisecond) })
	run := p.submit("", python("import time; time.sleep(1); print('late')\n"))
	all := p.events(run.ID).all()
	signs := 0
	var rest []*sseEvent
	for _, e := range all {
		if e.kind == "" {
			signs++
		} else {
			rest = append(rest, e)
		}
	}
	if out, _ := output(framesOf(rest)); out != "late\n" || signs < 3 {
		t.Errorf("%q, %d signs of life", out, signs)
	}
}
