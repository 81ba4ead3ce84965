package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
)

func TestClean(t *testing.T) {
	key := credential.Key.New()
	for in, want := range map[string]string{
		"": "", "python": "python", "a b~": "a b~", "a\nb": `a\nb`, "\x1b[31m": `\x1b[31m`, "\x00\x7f": `\x00\x7f`, "\xff": `\xff`, "é": `\u00e9`, "\u202eabc": `\u202eabc`, "😀": `\U0001f600`,
		`\n`: `\\n`, "\u009b": `\u009b`, "\ufffd": `\ufffd`, strings.Repeat("a", 128): strings.Repeat("a", 128), strings.Repeat("a", 129): strings.Repeat("a", 128) + `\...(129 bytes)`,
		"Bearer " + key: "Bearer gbk_(withheld)", "gbo_" + strings.Repeat("F", 64): "gbo_(withheld)", "gbk_short": "gbk_short", "gb": "gb",
		strings.Repeat("é", 129): strings.Repeat(`\u00e9`, 128) + `\...(258 bytes)`,
	} {
		if got := telemetry.Clean(in); got != want {
			t.Errorf("%.40q: %.80q, want %.80q", in, got, want)
		}
	}
	if got := telemetry.Clean(strings.Repeat("\n", 10<<20)); len(got) > 300 {
		t.Errorf("%d letters", len(got))
	}
}

// lying is a value that says something else to everyone who asks.
type lying struct{ s string }

func (l lying) Error() string                { return l.s }
func (l lying) String() string               { return l.s }
func (l lying) MarshalJSON() ([]byte, error) { return json.Marshal(l.s) }

type valuer struct{ s string }

func (v valuer) LogValue() slog.Value {
	return slog.GroupValue(slog.String("a", v.s), slog.Any("b", lying(v)))
}

// TestGuard: whatever is logged, one record is one line of ASCII with an end, and no
// key is in it. The control is the same handler without the guard.
//
// proves part of H-85 H-74 X-27
func TestGuard(t *testing.T) {
	key := credential.Key.New()
	log := func(l *slog.Logger, s string) {
		l.Info(s, "text", s, "error", errors.New(s), "any", lying{s}, "slice", []string{s}, "bytes", []byte(s), "valuer", valuer{s}, "map", map[string]string{s: s},
			slog.Group("g", "x", s, slog.Group("h", "y", s)), s, s, "number", 7, "time", time.Second)
		l.With("kept", s).WithGroup("of").Info("sentence", "z", s)
	}
	for _, form := range []string{"text", "json"} {
		handler := func(b *bytes.Buffer) slog.Handler {
			if form == "text" {
				return slog.NewTextHandler(b, nil)
			}
			return slog.NewJSONHandler(b, nil)
		}
		raw := false
		for i, s := range []string{"a\nlevel=ERROR msg=forged", "\x1b]0;title\a", "\u202e\u2028\u0085", "\xff\xfe", key, strings.Repeat("x", 1<<16), `"}` + "\r\n{", "=\" ", "\x00", "plain"} {
			var b, c bytes.Buffer
			log(slog.New(telemetry.Guard(handler(&b))), s)
			out := b.String()
			if strings.Count(out, "\n") != 2 || !strings.HasSuffix(out, "\n") || strings.Trim(strings.ReplaceAll(out, "\n", ""), ascii) != "" {
				t.Errorf("%s %d: %.300q", form, i, out)
			}
			if len(out) > 10<<10 || strings.Contains(out, key) || s == "plain" && !strings.Contains(out, "plain") {
				t.Errorf("%s %d: %d bytes: %.300q", form, i, len(out), out)
			}
			log(slog.New(handler(&c)), s)
			raw = raw || strings.Contains(c.String(), key) || strings.Trim(strings.ReplaceAll(c.String(), "\n", ""), ascii) != ""
		}
		if !raw {
			t.Errorf("%s: the control shows nothing either", form)
		}
	}
}

const ascii = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"

// Groups without end and attributes without number end.
func TestGuardDepth(t *testing.T) {
	var b bytes.Buffer
	l := slog.New(telemetry.Guard(slog.NewJSONHandler(&b, nil)))
	deep := slog.String("x", "y")
	for range 1000 {
		deep = slog.Attr{Key: "g", Value: slog.GroupValue(deep)}
	}
	many := make([]any, 0, 2000)
	for i := range 1000 {
		many = append(many, slog.Int(fmt.Sprint(i), i))
	}
	l.Info("m", deep)
	l.Info("m", many...)
	l.With(many...).Info("m")
	if b.Len() > 4000 {
		t.Errorf("%d bytes", b.Len())
	}
}

// TestLogRequest: what is in the line of a request, to the letter.
func TestLogRequest(t *testing.T) {
	var b bytes.Buffer
	l := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	telemetry.LogRequest(context.Background(), l, telemetry.Request{ID: "r1", Route: "POST /v1/runs", Client: "net-00", Status: 202, Took: 1500 * time.Microsecond, Received: 10, Sent: 20})
	l = slog.New(telemetry.Guard(l.Handler())) // and once is enough
	telemetry.LogRequest(context.Background(), l, telemetry.Request{ID: "r2\n", Route: "x", Client: "\x1b", Status: 503, Code: "storage"})
	want := `level=INFO msg=request request=r1 route="POST /v1/runs" status=202 ms=1.5 client=net-00 received=10 sent=20
level=WARN msg=request request=r2\n route=x status=503 ms=0 client=\x1b received=0 sent=0 code=storage
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
