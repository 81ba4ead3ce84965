package cell

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// talk makes one stream of frames, as an init sends them.
func talk(frames ...[]byte) []byte { return bytes.Join(frames, nil) }

func frameOf(t cellproto.Type, payload []byte) []byte { return cellproto.AppendFrame(nil, t, payload) }

// talks are the lives of an init from its report to the last file.
func talks() [][]byte {
	armed := frameOf(cellproto.TypeArmed, (&cellproto.Armed{Nonce: []byte("n"), Layers: []cellproto.Applied{{Layer: "root", OK: true, Detail: "d"}},
		Probes: []cellproto.ProbeResult{{Name: "p", Errno: 13}}, Steps: []cellproto.Step{{Name: "s", NS: 1}}}).Encode())
	started := frameOf(cellproto.TypeStarted, cellproto.Started{PID: 2}.Encode())
	denied := frameOf(cellproto.TypeDenied, cellproto.Denied{Arch: 0xc000003e, Number: 101}.Encode())
	exited := frameOf(cellproto.TypeExited, cellproto.Exited{Status: 3 << 8, WallNS: 1 << 20}.Encode())
	killed := frameOf(cellproto.TypeExited, cellproto.Exited{Status: 9, WallNS: 1 << 63}.Encode())
	failed := frameOf(cellproto.TypeFailed, cellproto.Failed{Stage: "files", Message: "no\x1b room"}.Encode())
	noExec := frameOf(cellproto.TypeFailed, cellproto.Failed{Stage: "exec", Message: "no", Errno: 2}.Encode())
	file := frameOf(cellproto.TypeArtifact, (&cellproto.Piece{Name: "a/b", Mode: 0o644, Size: 3, Data: []byte("abc")}).Encode())
	begun := frameOf(cellproto.TypeArtifact, (&cellproto.Piece{Name: "a/c", Mode: 0o755, Size: 9, More: true, Data: []byte("abc")}).Encode())
	odd := frameOf(cellproto.TypeArtifact, (&cellproto.Piece{Name: "../a", Mode: 0o4755, Data: []byte("abc")}).Encode())
	refused := frameOf(cellproto.TypeRefused, cellproto.Refused{Name: "a/c\n", Reason: "no\x00"}.Encode())
	done := frameOf(cellproto.TypeCollected, nil)
	return [][]byte{
		talk(armed, started, exited, file, begun, refused, done), talk(armed, started, killed, done), talk(armed, started, denied, exited),
		talk(armed, denied, exited), talk(armed, noExec), talk(armed, failed), talk(failed), talk(armed, started, failed, exited, odd, done),
		talk(armed, started, started), talk(armed, armed), talk(armed, started, exited, file, file, done), talk(armed, started, exited, begun, done),
		talk(armed, started, exited, begun, begun), nil, armed[:7], talk(armed, started, []byte{0xff, 0xff, 0xff, 0xff, 6}),
	}
}

// fuzzWant is small, so that what is too much fits an input.
var fuzzWant = cellproto.Collect{Patterns: []string{"a/**", "*.txt"}, Bytes: 4096, FileBytes: 1024, Files: 5, MS: 100}

// FuzzInit gives the host everything that an init says, from its report to the last
// file, as any bytes: what the host then believes keeps to the bounds of the job, the
// verdict is one that init may bring about, and the words are fit for people.
//
// proves part of H-6 T-13
func FuzzInit(f *testing.F) {
	for _, p := range talks() {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		init := bytes.NewReader(stream)
		report, err := readReport(init)
		if err != nil {
			checkWords(t, err.Error())
			return
		}
		if len(report.Layers)+len(report.Probes)+len(report.Steps) > len(stream) {
			t.Fatalf("a report of %d, %d and %d from %d bytes", len(report.Layers), len(report.Probes), len(report.Steps), len(stream))
		}
		r := &run{h: &Host{}, job: &Job{Limits: api.DefaultLimits()}, c: &cell{place: &place{}, pidfd: -1}, want: fuzzWant, started: time.Now()}
		r.out = newOutput(r.c, r.job.Limits, nil)
		kind, p, err := cellproto.ReadFrame(init, maxReply)
		if err == nil {
			err = r.first(kind, p)
		}
		if err != nil {
			checkWords(t, err.Error())
			return
		}
		if r.end.exec == 0 {
			r.frames(init)
		}
		r.ended = time.Now()
		r.out.finish(&r.result, time.Now().Add(time.Second))
		if r.end.exited != nil && r.end.denied == nil {
			g := &gathering{want: fuzzWant, names: map[string]bool{}}
			if err := g.read(init); err != nil {
				checkWords(t, words(err.Error(), maxWords))
			}
			checkGathering(t, g)
			r.result.Artifacts, r.result.RefusedArtifacts = g.got, g.refused
		}
		r.verdict()
		checkFuzzed(t, r)
	})
}

// checkWords wants a text for people: short, valid, on one line.
func checkWords(t *testing.T, s string) {
	t.Helper()
	if len(s) > maxWords+maxStage+200 || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		t.Fatalf("%d bytes for people: %q", len(s), s)
	}
}

// checkGathering wants what was taken to be what was asked for.
func checkGathering(t *testing.T, g *gathering) {
	t.Helper()
	var bytes int64
	names := map[string]bool{}
	for _, a := range g.got {
		asked := slices.ContainsFunc(g.want.Patterns, func(p string) bool { is, _ := api.MatchPattern(p, a.Name); return is })
		sum := sha256.Sum256(a.Content)
		if api.CheckFileName(a.Name) != nil || !asked || names[a.Name] || a.Mode > 0o777 || a.Size != int64(len(a.Content)) ||
			a.SHA256 != hex.EncodeToString(sum[:]) || a.Size > int64(g.want.FileBytes) {
			t.Fatalf("taken: %+v", a)
		}
		names[a.Name] = true
		bytes += a.Size
	}
	if bytes > int64(g.want.Bytes) || len(g.got) > int(g.want.Files) || len(g.refused) > maxRefused {
		t.Fatalf("taken: %d bytes, %d files, %d refused", bytes, len(g.got), len(g.refused))
	}
	for _, v := range g.refused {
		checkWords(t, v.Reason)
		if len(v.Name) > maxRefusedLen+2 || strings.ContainsFunc(v.Name, unicode.IsControl) || !utf8.ValidString(v.Name) {
			t.Fatalf("refused: %q", v.Name)
		}
	}
}

// checkFuzzed wants a result that init alone can bring about, and that survives its
// own JSON.
func checkFuzzed(t *testing.T, r *run) {
	t.Helper()
	res := &r.result
	if !slices.Contains([]api.Verdict{api.OK, api.Error, api.Timeout, api.Denied, api.SetupFailed}, res.Verdict) ||
		(res.Verdict == api.Denied) != (res.Syscall != "") || (res.Verdict == api.SetupFailed) != (res.Stage != "") {
		t.Fatalf("%s %q %q", res.Verdict, res.Stage, res.Syscall)
	}
	if res.WallMS < 0 || res.WallMS > ms(r.ended.Sub(r.started)+settleTime) || res.OOMKills != nil || res.PeakBytes != nil || res.CPUMS != nil {
		t.Fatalf("counters by init: %+v", res)
	}
	if res.ExitCode != nil && (*res.ExitCode < 0 || *res.ExitCode > 255 || res.Signal != "") {
		t.Fatalf("exit code %d, signal %q", *res.ExitCode, res.Signal)
	}
	checkWords(t, res.Message)
	written, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	var again api.Result
	d := json.NewDecoder(bytes.NewReader(written))
	d.DisallowUnknownFields()
	if err := d.Decode(&again); err != nil || !cmp.Equal(*res, again) {
		t.Fatalf("%v: %s", err, cmp.Diff(*res, again))
	}
}
