package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// Headers of the service.
const (
	ownerHeader       = "Glovebox-Owner"
	idempotencyHeader = "Idempotency-Key"
)

// call is one request, which may be sent several times.
type call struct {
	method, path string
	header       map[string]string
	body         []byte
	wait         time.Duration // how long the service may take by agreement
	max          int64         // longest answer
	// once says that it must not arrive twice: it is repeated only where it is certain
	// that it was not taken.
	once     bool
	patience time.Duration
	// grace is how long a request that is under way may go on after the context, since
	// its answer is needed to undo it.
	grace time.Duration
}

// jsonBody makes the body of a call.
func (c *call) jsonBody(v any) error {
	data, err := json.Marshal(v)
	c.body = data
	return err
}

// do sends a call until there is an answer, and decodes it into v, which may be nil.
// The error is an *api.ServiceError, an *AnswerError, the context's cause, or the
// network's.
func (c *Client) do(ctx context.Context, k *call, v any) error {
	return c.persist(ctx, k.patience, k.once, func() error {
		answer, err := c.ask(ctx, k)
		if err != nil || v == nil {
			return err
		}
		return decode(answer, v)
	})
}

// persist tries something until it is done, it cannot be done, or the patience ends.
func (c *Client) persist(ctx context.Context, patience time.Duration, once bool, try func() error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	began := time.Now()
	for n := 0; ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		pause, again := retry(err, once, n)
		if !again || time.Since(began)+pause > patience {
			if cause := context.Cause(ctx); cause != nil && !answered(err) {
				return cause
			}
			return err
		}
		if err := c.pause(ctx, pause, err); err != nil {
			return err
		}
	}
}

// pause waits before something is tried again because of an error.
func (c *Client) pause(ctx context.Context, pause time.Duration, why error) error {
	c.o.Log.Debug("glovebox: a request is repeated", "error", why, "pause", pause)
	if c.o.Retrying != nil && ctx.Err() == nil {
		c.o.Retrying(why, pause)
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answered tells whether an error is somebody's answer.
func answered(err error) bool {
	return errors.As(err, new(*api.ServiceError)) || errors.As(err, new(*AnswerError))
}

// retry says whether something may be tried again that failed the n-th time, and when.
func retry(err error, once bool, n int) (time.Duration, bool) {
	pause := min(50*time.Millisecond<<min(n, 10), 5*time.Second)
	pause = pause/2 + rand.N(pause/2)
	var (
		told   *api.ServiceError
		answer *AnswerError
		dns    *net.DNSError
		op     *net.OpError
	)
	switch {
	case errors.As(err, &told): // not taken, and it says when to come again
		return max(pause, time.Duration(min(told.RetryAfterMS, 1<<40))*time.Millisecond), told.RetryAfterMS > 0
	case errors.As(err, &answer):
		switch answer.Status {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return pause, true
		case http.StatusBadGateway, http.StatusGatewayTimeout:
			return pause, !once
		}
		return 0, false
	case errors.Is(err, errElsewhere), errors.As(err, &dns) && dns.IsNotFound,
		errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(tls.RecordHeaderError)), errors.As(err, new(tls.AlertError)):
		return 0, false
	case errors.As(err, &op) && op.Op == "dial":
		return pause, true
	}
	return pause, !once
}

// ask sends a call once and returns the body of an answer that is no error.
func (c *Client) ask(ctx context.Context, k *call) ([]byte, error) {
	if k.grace > 0 {
		var stop func()
		ctx, stop = lingering(ctx, k.grace)
		defer stop()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.times.head+k.wait+c.times.body, errSlow)
	defer cancel()
	a, err := c.send(ctx, cancel, k)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	if a.StatusCode >= 300 {
		return nil, c.refusal(a)
	}
	return readAll(a.Body, cmp.Or(k.max, c.o.MaxAnswer))
}

// errSlow is why a request ended that was answered too slowly.
var errSlow = errors.New("the service did not answer in time")

// send sends a call once and returns when the answer begins. It calls cancel when
// that takes too long; the context bounds what comes after.
func (c *Client) send(ctx context.Context, cancel context.CancelFunc, k *call) (*http.Response, error) {
	var body io.Reader
	if k.body != nil {
		body = bytes.NewReader(k.body)
	}
	r, err := http.NewRequestWithContext(ctx, k.method, c.base+k.path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "glovebox-client")
	if k.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	for name, value := range k.header {
		r.Header.Set(name, value)
	}
	late := time.AfterFunc(c.times.head+k.wait, cancel)
	a, err := c.http.Do(r)
	if !late.Stop() && err != nil {
		return nil, errSlow
	}
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = fmt.Errorf("%s: %w", c.base, u.Err)
	}
	if err != nil {
		return nil, err
	}
	if a.Header.Get("Content-Encoding") != "" {
		a.Body.Close()
		return nil, answerErrorf("it is compressed, which nobody asked for")
	}
	return a, nil
}

// lingering is a context that ends a while after its parent.
func lingering(parent context.Context, grace time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel(context.Cause(parent))
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel(nil) }
}

// refusal makes an error of an answer that is one.
func (c *Client) refusal(a *http.Response) error {
	status := a.StatusCode
	if status < 400 {
		return &AnswerError{status, "a redirection, which is not followed"}
	}
	reason := cmp.Or(http.StatusText(status), "unknown")
	data, err := readAll(a.Body, maxTold)
	kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	var body api.ErrorBody
	if err != nil || kind != "application/json" || decode(data, &body) != nil || body.Error.Code == "" || body.Error.Code.HTTPStatus() != status {
		return &AnswerError{status, reason}
	}
	e := body.Error
	if e.RetryAfterMS <= 0 && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		if n, err := strconv.ParseInt(a.Header.Get("Retry-After"), 10, 32); err == nil && n > 0 {
			e.RetryAfterMS = n * 1000
		}
	}
	return &e
}

// readAll reads an answer that has an end.
func readAll(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > most {
		return nil, answerErrorf("it is longer than %d bytes", most)
	}
	return data, nil
}

// maxValues is how many values an answer may have: the operator's list of keys has
// the most.
const maxValues = 4_000_000

// decode decodes an answer. What a newer service says besides is stepped over.
func decode(data []byte, v any) error {
	err := strictjson.Decode(data, v, strictjson.Options{MaxBytes: max(len(data), 1), MaxValues: maxValues, Newer: true})
	if field := (*api.FieldError)(nil); errors.As(err, &field) {
		return answerErrorf("it cannot be read: %s", field.Error())
	}
	if err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	return nil
}
