package admission

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newQueue opens a queue in a folder of the test's own, or the one of o.
func newQueue(t testing.TB, o queue.Options) *queue.Queue {
	t.Helper()
	if o.Dir == "" && o.URL == "" {
		o.Dir = t.TempDir() + "/queue"
	}
	o.MinFree = 1
	q, err := queue.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, q.Close()) })
	return q
}

// open opens an Admission, with a queue of its own unless o has one.
func open(t testing.TB, o Options) *Admission {
	t.Helper()
	if o.Queue == nil {
		o.Queue = newQueue(t, queue.Options{})
	}
	if o.Secret == nil {
		o.Secret = credential.NewSecret()
	}
	a, err := Open(t.Context(), o)
	must(t, err)
	t.Cleanup(a.Close)
	return a
}

// request is one from an address, with headers as names and values in turn.
func request(peer string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/limits", nil)
	r.RemoteAddr = peer
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func identify(t testing.TB, a *Admission, peer string, headers ...string) Client {
	t.Helper()
	c, err := a.Identify(request(peer, headers...))
	must(t, err)
	return c
}

// code is that of an error, "" for none.
func code(t testing.TB, err error) api.Code {
	t.Helper()
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*api.ServiceError](err)
	if !ok {
		t.Fatalf("%T: %v", err, err)
	}
	if s := e.Code.HTTPStatus(); (s == 429 || s == 503) && (e.RetryAfterMS < 1000 || e.RetryAfterMS > 100*day.Milliseconds()) {
		t.Errorf("%v: to try again after %d ms", e, e.RetryAfterMS)
	}
	return e.Code
}

func admit(t testing.TB, a *Admission, c Client) (*Place, string, api.Code) {
	t.Helper()
	id := credential.Run.New()
	p, err := a.Admit(t.Context(), c, Request{ID: id, SourceHash: "aa"})
	return p, id, code(t, err)
}

// proves part of X-17
func TestInFlight(t *testing.T) {
	a := open(t, Options{InFlight: 3})
	c, other := identify(t, a, "192.0.2.1:1"), identify(t, a, "192.0.2.2:1")
	var first string
	for i := range 3 {
		p, id, refused := admit(t, a, c)
		if refused != "" {
			t.Fatal(i, refused)
		}
		must(t, a.o.Queue.Submit(t.Context(), queue.Job{ID: id, Client: c.ID}))
		p.Settle(t.Context(), nil)
		if i == 0 {
			first = id
		}
	}
	if _, _, refused := admit(t, a, c); refused != api.CodeInFlight {
		t.Error("a fourth:", refused)
	}
	if p, _, refused := admit(t, a, other); refused != "" {
		t.Error("another client:", refused)
	} else {
		p.Refuse(t.Context())
	}
	a.Done(first)
	a.Done(first) // again says nothing
	p, _, refused := admit(t, a, c)
	if refused != "" {
		t.Error("after an end:", refused)
	}
	p.Refuse(t.Context())
	p.Refuse(t.Context())
	if h := a.Held(); h.Runs != 2 || h.Clients != 1 {
		t.Errorf("%+v", h)
	}
}

// proves part of X-18 H-74
func TestKey(t *testing.T) {
	a := open(t, Options{Quotas: true, OperatorToken: credential.Operator.New()})
	c := identify(t, a, "192.0.2.1:1")
	info, err := a.CreateKey(t.Context(), c)
	must(t, err)
	if !credential.Key.Is(info.Key) || !credential.KeyID.Is(info.ID) || !credential.Webhook.Is(info.WebhookSecret) || time.Until(info.Expires) < 89*day {
		t.Errorf("%+v", info)
	}
	k := identify(t, a, "198.51.100.7:1", "Authorization", "Bearer "+info.Key)
	if k.Kind != KeyHolder || k.KeyID != info.ID || k.ID != "key-"+info.ID {
		t.Errorf("%+v", k)
	}
	again, err := a.Key(t.Context(), k)
	must(t, err)
	if again.Key != "" || again.WebhookSecret != "" || again.Runs == nil || again.Runs.Limit != 200 {
		t.Errorf("%+v", again)
	}
	must(t, a.Revoke(t.Context(), info.ID))
	if _, err := a.Identify(request("198.51.100.7:1", "Authorization", "Bearer "+info.Key)); code(t, err) != api.CodeUnauthorized {
		t.Error("revoked:", err)
	}
}

func queueOptions() queue.Options { return queue.Options{} }
