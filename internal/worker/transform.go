//go:build linux

package worker

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/glovebox-dev/glovebox/internal/transform"
	"github.com/glovebox-dev/glovebox/internal/wire"
)

// transformMain is the life of a worker that makes JavaScript of one source. It
// is sealed before it has seen any of it, and ends when its host has had the answer.
func transformMain() int {
	in, out := wire.NewReader(socket(channel), wire.Host), wire.NewWriter(socket(channel))
	if err := transformOne(in, out); err != nil {
		text := err.Error()
		_ = out.Write(&wire.Fatal{Kind: "setup_failed", Message: text[:min(len(text), 4<<10)]})
		return 1
	}
	return 0
}

func transformOne(in *wire.Reader, out *wire.Writer) error {
	m, err := in.Read()
	if err != nil {
		return err
	}
	if _, ok := m.(*wire.HostHello); !ok {
		return fmt.Errorf("message %T in place of a hello", m)
	}
	if err := out.Write(&wire.WorkerHello{Version: wire.Version, Mode: wire.TransformMode, PID: uint64(os.Getpid())}); err != nil {
		return err
	}
	time.AfterFunc(time.Hour, func() {}).Stop() // the first timer wants a poller, which wants calls that are gone behind the seal
	if err := seal(); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	if err := probe(); err != nil {
		return fmt.Errorf("attest: %w", err)
	}
	if err := out.Write(&wire.Ready{}); err != nil {
		return err
	}
	if m, err = in.Read(); err != nil {
		if errors.Is(err, errEnd) { // nobody wants it any more
			return nil
		}
		return err
	}
	t, ok := m.(*wire.Transform)
	if !ok {
		return fmt.Errorf("message %T in place of a source", m)
	}
	if err := out.Write(transformed(t)); err != nil {
		return err
	}
	_, err = in.Read() // until the host hangs up: with the worker's end its socket is closed, read or not
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}

// transformed is the answer to a source.
func transformed(t *wire.Transform) *wire.Done {
	code, err := transform.Do(transform.Source{Name: t.Name, Code: t.Source, Syntax: transform.Syntax(t.Syntax), Factory: t.Factory, Fragment: t.Fragment})
	done := &wire.Done{ID: t.ID}
	if err == nil {
		if done.Value, err = wire.Encode(code, wire.Budget{}); err == nil {
			return done
		}
	}
	done.Failure = &wire.Failure{Kind: "syntax_error", Name: "SyntaxError", Message: cut(err.Error(), 8<<10)}
	return done
}
