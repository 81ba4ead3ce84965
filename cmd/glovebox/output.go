package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/termtext"
)

// sink takes what happens in a run to where the caller wants it: the two
// streams as they come, or JSON.
type sink struct {
	form   string // "", "object" or "stream"
	stdout io.Writer
	stderr io.Writer
	people bool // a person reads stderr
	dest   *outDir
	taken  *glovebox.Result // what is left when dest has the files

	tracing *tracing // nil unless the program is traced

	guestOut, guestErr io.Writer
	closers            []io.Closer
	midLine            bool // the terminal's cursor is not at the start of a line

	unfetched int // artifacts that a service told of and did not give

	cancel   context.CancelCauseFunc
	finished bool
}

// writeError is output that could not be written; it ends the run.
type writeError struct{ err error }

func (e *writeError) Error() string { return "write the output: " + cause(e.err) }
func (e *writeError) Unwrap() error { return e.err }

func newSink(form string, stdout, stderr io.Writer, dest *outDir, cancel context.CancelCauseFunc) *sink {
	s := &sink{form: form, stdout: stdout, stderr: stderr, people: isTerminal(stderr), dest: dest, cancel: cancel}
	s.guestOut, s.guestErr = s.guest(stdout), s.guest(stderr)
	return s
}

// guest is where a stream of the guest goes: w itself, or w behind a filter if
// it is a terminal.
func (s *sink) guest(w io.Writer) io.Writer {
	if !isTerminal(w) {
		return w
	}
	t := termtext.NewWriter(&cursor{w, &s.midLine})
	s.closers = append(s.closers, t)
	return t
}

// cursor notes whether what goes to a terminal ends within a line.
type cursor struct {
	w       io.Writer
	midLine *bool
}

func (c *cursor) Write(p []byte) (int, error) {
	// An end of colours does not move it.
	if text := bytes.TrimSuffix(p, []byte(termtext.Reset)); len(text) > 0 {
		*c.midLine = text[len(text)-1] != '\n'
	}
	return c.w.Write(p)
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// event takes one event of the run; the library calls it one at a time.
func (s *sink) event(e glovebox.Event) {
	var err error
	switch s.form {
	case "stream":
		if e.Type == "finished" {
			s.finished, e.Result = true, s.take(e.Result)
		}
		err = s.line(e)
	case "":
		switch e.Type {
		case "compiled":
			err = s.compiler(e.Compile)
		case "chunk":
			err = s.chunk(e)
		}
	}
	if err != nil {
		s.cancel(&writeError{err})
	}
}

func (s *sink) chunk(e glovebox.Event) error {
	w, data := s.guestOut, []byte(e.Data)
	if e.Stream == "stderr" {
		w = s.guestErr
	}
	if e.Base64 != "" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(e.Base64); err != nil {
			return err
		}
	}
	_, err := w.Write(data)
	return err
}

// compiler shows what the compiler wrote, on stderr since it is not the
// program's. It is as foreign as what the program writes, which it quotes; a
// colour or sequence that it leaves open ends here.
func (s *sink) compiler(c *api.Compile) error {
	w := s.guest(s.stderr)
	var err error
	for _, text := range []string{c.Stdout, c.Stderr} {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		_, more := io.WriteString(w, text)
		err = errors.Join(err, more)
	}
	if t, ok := w.(*termtext.Writer); ok {
		err = errors.Join(err, t.Close())
	}
	return err
}

// line writes v as one line of JSON.
func (s *sink) line(v any) error { return writeJSON(s.stdout, v) }

func writeJSON(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(termtext.JSON(text), '\n'))
	return err
}

// take gives the files of a result to the folder of --out, once.
func (s *sink) take(r *glovebox.Result) *glovebox.Result {
	if s.dest == nil {
		return r
	}
	if s.taken == nil {
		s.taken = s.dest.take(r)
	}
	return s.taken
}

// end writes what is left to say of a run and returns the exit status as an
// error. why is the reason for which the run was canceled, if it was.
func (s *sink) end(r *glovebox.Result, l glovebox.Limits, why error) error {
	var err error
	for _, c := range s.closers {
		err = errors.Join(err, c.Close())
	}
	r = s.take(r)
	switch {
	case s.form == "object" && s.tracing != nil:
		err = errors.Join(err, s.line(traced{r, &s.tracing.trace}))
	case s.form == "object":
		err = errors.Join(err, s.line(r))
	case s.form == "stream" && !s.finished:
		err = errors.Join(err, s.line(glovebox.Event{Type: "finished", Result: r}))
	}
	var broken *writeError
	if !errors.As(why, &broken) && err != nil {
		broken = &writeError{err}
	}
	if broken != nil {
		if errors.Is(broken, unix.EPIPE) { // as if the signal had ended us
			return &statusError{code: exitSignal + int(unix.SIGPIPE)}
		}
		return &statusError{exitFailed, broken}
	}
	s.say(r, l)
	if s.tracing != nil && s.form == "" {
		s.tracing.write(s.stderr)
	}
	code := exitStatus(r)
	if code == 0 && (s.dest != nil && s.dest.failed > 0 || s.unfetched > 0) {
		code = exitFailed
	}
	if code != 0 {
		return &statusError{code: code}
	}
	return nil
}

// say tells a person how a run ended and where its files are. What is not the
// program's own doing, and what was asked for and is missing, is always told.
func (s *sink) say(r *glovebox.Result, l glovebox.Limits) {
	talk := s.people && s.form == ""
	var lines []string
	if quiet := r.Verdict == api.OK || r.Verdict == api.Error; !quiet || talk {
		lines = append(lines, sentence(r, l))
	}
	for _, a := range r.RefusedArtifacts {
		lines = append(lines, "artifact "+a.Name+": "+a.Reason)
	}
	if files := s.dest.files(); files != "" && talk {
		lines = append(lines, files)
	}
	if len(lines) > 0 && s.people && s.midLine {
		fmt.Fprintln(s.stderr)
	}
	for _, line := range lines {
		fmt.Fprintln(s.stderr, "glovebox: "+termtext.String(line))
	}
}
