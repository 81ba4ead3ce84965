package glovebox_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
)

// streamed runs a program and returns, beside the result, the bytes of each
// stream as they came in chunks. It fails for a chunk that splits a character.
func streamed(t *testing.T, p glovebox.Program) (*glovebox.Result, map[string][]byte) {
	t.Helper()
	got := map[string][]byte{}
	last := -1.0
	r, err := box(t).Start(t.Context(), p, glovebox.WithEvents(func(e glovebox.Event) {
		if e.TMS < last {
			t.Errorf("time goes back: %v after %v", e.TMS, last)
		}
		last = e.TMS
		if e.Type != "chunk" {
			return
		}
		b := []byte(e.Data)
		if e.Base64 != "" {
			var err error
			if b, err = base64.StdEncoding.DecodeString(e.Base64); err != nil || utf8.Valid(b) || e.Data != "" {
				t.Errorf("a chunk as base64: %v, text %v, data %q", err, utf8.Valid(b), e.Data)
			}
		}
		if len(b) == 0 || len(b) > 64<<10 {
			t.Errorf("a chunk of %d bytes", len(b))
		}
		got[e.Stream] = append(got[e.Stream], b...)
	}))
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return res, got
}

// keptBytes are the bytes that a result has of stdout.
func keptBytes(t *testing.T, r *glovebox.Result) []byte {
	t.Helper()
	if r.StdoutBase64 == "" {
		return []byte(r.Stdout)
	}
	b, err := base64.StdEncoding.DecodeString(r.StdoutBase64)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Of a flood exactly the limit is kept, and the run ends at once; what does not
// pass the limit is not cut, to the byte.
//
// proves part of X-04
func TestSurviveOutputFlood(t *testing.T) {
	flood := `int main(int n,char**v){int fd=atoi(v[1]);char b[10000];memset(b,'x',sizeof b);for(;;)if(write(fd,b,sizeof b)<0)return 1;}`
	for _, c := range []struct {
		fd, want string
		limit    int64
	}{{"1", "output_limit stdout", 1}, {"2", "output_limit stderr", 1}, {"1", "output_limit stdout", 4096},
		{"2", "output_limit stderr", 100_001}, {"1", "output_limit stdout", 3 * mib}} {
		p := limited(cProgram(t, surviveC+flood), glovebox.Limits{StdoutBytes: c.limit, StderrBytes: c.limit})
		p.Args = []string{c.fd}
		r, got := streamed(t, p)
		kept, cut, other := r.Stdout, r.Truncated.Stdout, r.Truncated.Stderr
		if c.fd == "2" {
			kept, cut, other = r.Stderr, other, cut
		}
		if wantEnd(t, "flood", r, c.want) && (int64(len(kept)) != c.limit || !cut || other || strings.Trim(kept, "x") != "") {
			t.Errorf("flood of %s: %d bytes of %d, cut %v", c.fd, len(kept), c.limit, cut)
		}
		if all := append(got["stdout"], got["stderr"]...); string(all) != kept {
			t.Errorf("streamed %d bytes, kept %d", len(all), len(kept))
		}
		if r.WallMS > 5000 {
			t.Errorf("ended after %.0f ms", r.WallMS)
		}
	}
	for _, c := range []struct{ size, want string }{{"4096", "ok 0"}, {"4097", "output_limit stdout"}} {
		p := limited(glovebox.Program{Command: []string{"head", "-c", c.size, "/dev/zero"}}, glovebox.Limits{StdoutBytes: 4096})
		r := timely(t, box(t), p)
		if wantEnd(t, c.size, r, c.want) && (len(r.Stdout) != 4096 || r.Truncated.Stdout != (c.want != "ok 0")) {
			t.Errorf("%s: kept %d, truncated %v", c.size, len(r.Stdout), r.Truncated.Stdout)
		}
	}
}

// Whatever bytes a guest writes and however it cuts them, the result has them
// all, text as text and the rest as base64, and no chunk splits a character.
//
// proves part of X-04
func TestSurviveOutputBytes(t *testing.T) {
	// Writes its argument's text, so many bytes at a time, with pauses between.
	drip := `int main(int n,char**v){int step=atoi(v[1]);static char b[1<<20];long len=fread(b,1,sizeof b,stdin);
		for(long i=0;i<len;i+=step){long k=len-i<step?len-i:step;if(write(1,b+i,k)!=k)return 1;if(step<9)usleep(300);}return 0;}`
	text := "aé€𝄞\u200bж\x00\x1b[2J\r\n"
	for name, in := range map[string][]byte{
		"characters":     []byte(strings.Repeat(text, 20)),
		"one line":       []byte(strings.Repeat("€", 100_000)),
		"nul":            make([]byte, 70_000),
		"invalid":        bytes.Repeat([]byte{0xff, 0xc3, 'a', 0xe2, 0x82}, 50),
		"half at end":    []byte("ab\xe2\x82"),
		"half in middle": []byte("ab\xe2\x82cd"),
		"surrogates":     bytes.Repeat([]byte{0xed, 0xa0, 0x80}, 30),
		"overlong":       bytes.Repeat([]byte{0xc0, 0x80, 0xf5, 0x80, 0x80, 0x80}, 30),
		"four bytes":     []byte(strings.Repeat("𝄞", 33_000)),
	} {
		for _, step := range []string{"1", "2", "3", "7", "65536", "99999"} {
			if len(in) > 1000 && len(step) < 2 {
				continue
			}
			p := cProgram(t, surviveC+drip)
			p.Args, p.Stdin = []string{step}, in
			r, got := streamed(t, p)
			wantEnd(t, name, r, "ok 0")
			if !bytes.Equal(keptBytes(t, r), in) || !bytes.Equal(got["stdout"], in) {
				t.Errorf("%s by %s: kept %d and streamed %d of %d bytes", name, step, len(keptBytes(t, r)), len(got["stdout"]), len(in))
			}
			if valid := utf8.Valid(in); valid != (r.StdoutBase64 == "") || !utf8.ValidString(r.Stdout) {
				t.Errorf("%s by %s: base64 %v", name, step, r.StdoutBase64 != "")
			}
		}
	}
}

// The pieces of a text that is valid are all text: none came as base64.
func TestSurviveOutputWhole(t *testing.T) {
	p := python("import sys,time\nb='aé€𝄞'.encode()*40\nfor i in range(len(b)):\n  sys.stdout.buffer.write(b[i:i+1]); sys.stdout.flush(); time.sleep(0.0002)\n")
	chunks := 0
	r, err := box(t).Start(t.Context(), p, glovebox.WithEvents(func(e glovebox.Event) {
		if e.Type == "chunk" {
			chunks++
			if e.Base64 != "" {
				t.Errorf("a character was split: %q", e.Base64)
			}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := r.Wait(); err != nil || res.Stdout != strings.Repeat("aé€𝄞", 40) || chunks < 2 {
		t.Errorf("%d chunks, %v", chunks, err)
	}
}

// A flood costs the host a small multiple of what it keeps, bytes that are no
// text included.
//
// proves part of B-12
func TestSurviveOutputMemory(t *testing.T) {
	const limit = 16 * mib
	for _, fill := range []string{"120", "255"} {
		p := limited(python("import os\nb=bytes(["+fill+"])*65536\nwhile True: os.write(1,b)"), glovebox.Limits{StdoutBytes: limit})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := run(t, box(t), p)
		runtime.ReadMemStats(&after)
		wantEnd(t, "flood", r, "output_limit stdout")
		// append doubles (3 ×), then the text (up to 3 ×) and base64 (1.4 ×).
		if got := (after.TotalAlloc - before.TotalAlloc) / limit; got > 12 {
			t.Errorf("%s: the host allocated %d times what it kept", fill, got)
		}
	}
	before := heapInUse()
	for range 20 {
		run(t, box(t), limited(glovebox.Program{Command: []string{"cat", "/dev/zero"}}, glovebox.Limits{StdoutBytes: mib}))
	}
	if grown := heapInUse() - before; grown > 8*mib {
		t.Errorf("twenty floods left %d MiB in the heap", grown/mib)
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// A caller that takes its time loses nothing of what was written before the
// guest ended.
func TestSurviveOutputSlowCaller(t *testing.T) {
	p := glovebox.Program{Command: []string{"head", "-c", "65536", "/dev/zero"}}
	var n int
	r, err := box(t).Start(context.Background(), p, glovebox.WithEvents(func(e glovebox.Event) {
		if e.Type == "chunk" && n == 0 {
			<-time.After(1500 * time.Millisecond) // longer than a run waits for its pipes
		}
		n += len(e.Data)
	}))
	if err != nil {
		t.Fatal(err)
	}
	res, err := r.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if wantEnd(t, "slow", res, "ok 0") && (n != 65536 || len(res.Stdout) != 65536) {
		t.Errorf("streamed %d, kept %d", n, len(res.Stdout))
	}
}
