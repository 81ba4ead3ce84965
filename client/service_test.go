package client_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/client"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// A program runs, and what it left is fetched by its digest.
func TestRunAsRoot(t *testing.T) {
	_, url := open(t, service.Options{})
	c := dial(t, client.Options{URL: url})
	r, err := c.Start(t.Context(), api.Program{Language: "python", Source: "print(6 * 7)\nopen('a b.txt', 'w').write('left')", Artifacts: []string{"*.txt"}})
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.Wait()
	if err != nil || result.Verdict != api.OK || result.Stdout != "42\n" || result.ID != r.ID() {
		t.Fatalf("%+v %v", result, err)
	}
	file, err := r.Artifact(t.Context(), "a b.txt")
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(file); string(text) != "left" {
		t.Errorf("%q", text)
	}
	if _, err := r.Artifact(t.Context(), "other"); !errors.As(err, new(*api.FieldError)) {
		t.Errorf("%v", err)
	}
	if err := r.Signal("SIGINT"); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%v", err)
	}
	_, err = c.Run(t.Context(), api.Program{Language: "python"})
	if told := (*api.ServiceError)(nil); !errors.As(err, &told) || told.Code != api.CodeBadField || told.RequestID == "" {
		t.Errorf("%v", err)
	}
}

// The context cancels the run on the service, by the owner's token.
//
// proves part of X-25
func TestCancelAsRoot(t *testing.T) {
	_, url := open(t, service.Options{})
	c := dial(t, client.Options{URL: url})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := c.Start(ctx, api.Program{Command: []string{"/bin/sleep", "9"}})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := c.Attach(t.Context(), r.ID(), "")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for who, r := range map[string]*client.Running{"owner": r, "watcher": watcher} {
		if result, err := r.Wait(); err != nil || result.Verdict != api.Canceled {
			t.Errorf("%s: %+v %v", who, result, err)
		}
	}
	// Control: a watcher's context ends nothing but the watching.
	r, err = c.Start(t.Context(), api.Program{Command: []string{"/bin/sleep", "1"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	if watcher, err = c.Attach(ctx, r.ID(), ""); err != nil {
		t.Fatal(err)
	}
	cancel()
	if result, err := watcher.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v %v", result, err)
	}
	if result, err := r.Wait(); err != nil || result.Verdict != api.OK {
		t.Errorf("%+v %v", result, err)
	}
}

// A run that is canceled at whatever moment of its beginning does not go on.
func TestCancelAtOnceAsRoot(t *testing.T) {
	_, url := open(t, service.Options{})
	c := dial(t, client.Options{URL: url})
	for i := range 40 {
		r, err := c.Start(t.Context(), api.Program{Command: []string{"/bin/sleep", "9"}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 250 * time.Microsecond) // a different moment each time
		r.Cancel()
		if result, err := r.Wait(); err != nil || result.Verdict != api.Canceled {
			t.Fatalf("%d: %+v %v", i, result, err)
		}
	}
}

// Who has the id watches, and nothing that he sends reaches the program: without the
// owner's token, and with another one.
//
// proves part of X-25
func TestWatcherAsRoot(t *testing.T) {
	_, url := open(t, service.Options{})
	c := dial(t, client.Options{URL: url})
	r, err := c.Start(t.Context(), api.Program{Language: "bash", Source: "trap 'echo signal' USR1; echo ready; while read -r x; do echo got $x; done"},
		client.WithStdinPipe(), client.WithEventStream())
	if err != nil {
		t.Fatal(err)
	}
	for f := range r.Events() {
		if f.Data == "ready\n" {
			break
		}
	}
	forbidden := func(err error) bool {
		told := (*api.ServiceError)(nil)
		return errors.As(err, &told) && told.Code == api.CodeForbidden
	}
	watcher, err := c.Attach(t.Context(), r.ID(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := watcher.Signal("SIGUSR1"); !errors.As(err, new(*api.FieldError)) {
		t.Errorf("%v", err)
	}
	if _, err := c.Attach(t.Context(), r.ID(), "", client.WithStdinPipe()); !errors.As(err, new(*api.FieldError)) {
		t.Errorf("%v", err)
	}
	thief, err := c.Attach(t.Context(), r.ID(), token, client.WithStdinPipe())
	if err != nil {
		t.Fatal(err)
	}
	if err := thief.Signal("SIGUSR1"); !forbidden(err) {
		t.Errorf("%v", err)
	}
	if _, err := thief.Stdin().Write([]byte("stolen\n")); !forbidden(err) {
		t.Errorf("%v", err)
	}
	thief.Cancel()
	if result, err := thief.Wait(); !forbidden(err) {
		t.Errorf("%+v %v", result, err)
	}
	if _, err := r.Stdin().Write([]byte("own\n")); err != nil { // the control
		t.Error(err)
	}
	if err := r.Stdin().Close(); err != nil {
		t.Error(err)
	}
	if result, err := r.Wait(); err != nil || result.Stdout != "ready\ngot own\n" {
		t.Errorf("%+v %v", result, err)
	}
}

// The same key is the same run, and another program with it is refused.
func TestIdempotencyAsRoot(t *testing.T) {
	_, url := open(t, service.Options{})
	c := dial(t, client.Options{URL: url})
	key := client.WithIdempotencyKey(strings.Repeat("k", 16))
	first, err := c.Run(t.Context(), api.Program{Command: []string{"/bin/date", "+%N"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Run(t.Context(), api.Program{Command: []string{"/bin/date", "+%N"}}, key)
	if err != nil || again.ID != first.ID || again.Stdout != first.Stdout {
		t.Errorf("%+v %v", again, err)
	}
	key = client.WithIdempotencyKey(strings.Repeat("l", 64))
	r, err := c.Start(t.Context(), api.Program{Command: []string{"/bin/sleep", "9"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Cancel()
	_, err = c.Run(t.Context(), api.Program{Command: []string{"/bin/true"}}, key)
	if told := (*api.ServiceError)(nil); !errors.As(err, &told) || told.Code != api.CodeConflict {
		t.Errorf("%v", err)
	}
	if other, err := c.Run(t.Context(), api.Program{Command: []string{"/bin/date", "+%N"}}); err != nil || other.ID == first.ID {
		t.Errorf("%+v %v", other, err)
	}
}

// What the service says of itself.
func TestInfoAsRoot(t *testing.T) {
	_, url := open(t, service.Options{Slots: 3})
	c := dial(t, client.Options{URL: url})
	languages, err := c.Languages(t.Context())
	if err != nil || len(languages) == 0 {
		t.Errorf("%v %v", languages, err)
	}
	limits, err := c.Limits(t.Context())
	if err != nil || limits.Slots != 3 || limits.Ceilings.WallMS != 60_000 {
		t.Errorf("%+v %v", limits, err)
	}
	status, err := c.Status(t.Context())
	if err != nil || !status.Complete || status.Slots != 3 {
		t.Errorf("%+v %v", status, err)
	}
}

// A service that allows shorter waits than the client's is asked more often.
func TestShortWaitAsRoot(t *testing.T) {
	o := service.Options{}
	o.Server.MaxWait = 50 * time.Millisecond
	_, url := open(t, o)
	result, err := dial(t, client.Options{URL: url}).Run(t.Context(), api.Program{Command: []string{"/bin/sleep", "0.3"}})
	if err != nil || result.Verdict != api.OK {
		t.Errorf("%+v %v", result, err)
	}
}
