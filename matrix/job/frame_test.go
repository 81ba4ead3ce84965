package job

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestFramesSurviveOtherLines(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	b.WriteString("boot noise\n~nonsense\n")
	sent := []Frame{
		{Kind: Hello, Text: "6.1"},
		{Kind: Data, Command: 1, Stderr: true, Data: []byte("a\x00\r\n~\xff")},
		{Kind: Exit, Command: 1, Code: 137, Signal: "SIGKILL"},
	}
	for _, f := range sent {
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
		b.WriteString("more noise\n")
	}
	r := NewReader(&b)
	for i, want := range sent {
		got, err := r.Read()
		if err != nil {
			t.Fatal(err)
		}
		if got.Seq != i || got.Kind != want.Kind || got.Code != want.Code || !bytes.Equal(got.Data, want.Data) || got.Stderr != want.Stderr {
			t.Errorf("frame %d is %+v, want %+v", i, got, want)
		}
	}
	if _, err := r.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last frame: %v", err)
	}
	if r.Strays != 5 {
		t.Errorf("%d strays, want 5", r.Strays)
	}
}

func TestDamagedFrameIsALoss(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, text := range []string{"one", "two", "three"} {
		if err := w.Write(Frame{Kind: Note, Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReader(strings.NewReader(strings.Replace(b.String(), "two", "tw0", 1)))
	if _, err := r.Read(); err != nil {
		t.Fatal(err)
	}
	if f, err := r.Read(); err == nil || !strings.Contains(err.Error(), "frame 2 came where 1 was due") {
		t.Errorf("got %+v, %v", f, err)
	}
}
