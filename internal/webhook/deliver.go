package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/egress"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// maxHead bounds the status line and the headers of an answer, with what comes before
// it (1xx). Nothing else of an answer is read.
const maxHead = 16 << 10

// writePause is before a try that could not be written down is thought of again.
const writePause = 10 * time.Second

// failure is why a try failed, in words of our own.
type failure struct {
	why   string
	final bool // no other try could do better
}

// try makes one try, and says what is next.
func (h *Hooks) try(i *item, t *target) {
	defer h.tried(i, t)
	log := h.o.Log.With("run", i.run, "key", i.key, "host", i.url.Authority())
	r := record{Key: i.key, URL: i.url.String(), Tries: i.tries + 1, At: h.o.Now().UnixMilli()}
	data, err := json.Marshal(r)
	if err != nil {
		log.Error("webhook: a try cannot be written down", "error", err)
		h.forget(i)
		return
	}
	rev, err := h.bucket.Update(h.ctx, i.run, data, i.rev, 0)
	switch {
	case errors.Is(err, queue.ErrConflict): // another instance is at it, or it is too old
		h.forget(i)
		return
	case errors.Is(err, queue.ErrClosed), h.ctx.Err() != nil:
		return
	case err != nil: // without a record there could be tries without end
		log.Warn("webhook: a try cannot be written down", "error", err)
		h.ready(i, h.o.Now().Add(writePause))
		return
	}
	h.setRev(i, rev)
	i.tries++
	failed := h.attempt(i)
	if h.ctx.Err() != nil {
		return // nobody knows; the record says that it was tried
	}
	outcome := Delivered
	switch {
	case failed == nil:
		log.Info("webhook: delivered", "try", i.tries)
	case failed.why == gone:
		outcome = Dropped
	case !failed.final && i.tries <= len(h.o.Pauses):
		h.o.Observe(Retried)
		log.Info("webhook: a try failed", "try", i.tries, "reason", failed.why)
		h.ready(i, h.o.Now().Add(h.o.Pauses[i.tries-1]))
		return
	default:
		outcome = Failed
	}
	if failed != nil {
		log.Warn("webhook: not delivered", "try", i.tries, "reason", failed.why)
	}
	h.end(record{Key: i.key, Tries: i.tries}, i.run, rev, outcome)
	h.forget(i)
}

const gone = "the run or the key is gone"

// attempt tells a host of a run. Nil means that it said 2xx.
func (h *Hooks) attempt(i *item) *failure {
	ctx, cancel := context.WithTimeout(h.ctx, h.o.Timeout)
	defer cancel()
	if h.o.Active != nil && !h.o.Active(ctx, i.key) {
		return &failure{gone, true}
	}
	body, err := h.body(ctx, i.run)
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return &failure{gone, true}
	case err != nil:
		return &failure{why: "the result cannot be read"}
	}
	status, err := h.post(ctx, i, body)
	switch {
	case err != nil:
		return classify(ctx, err)
	case status >= 200 && status < 300:
		return nil
	case status == 408, status == 429, status >= 500:
		return &failure{why: fmt.Sprintf("status %d", status)}
	}
	return &failure{fmt.Sprintf("status %d", status), true}
}

// classify says of an error what may be in a log: nothing of what the other side said.
func classify(ctx context.Context, err error) *failure {
	if _, ok := errors.AsType[*egress.AddressError](err); ok {
		return &failure{"its address must not be reached", true}
	}
	if ctx.Err() != nil {
		return &failure{why: "too slow"}
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return &failure{why: "its certificate is not good"}
	}
	return &failure{why: "no connection, or no answer of HTTP"}
}

// post makes one request on a connection of its own, and reads the head of its answer.
func (h *Hooks) post(ctx context.Context, i *item, body []byte) (status int, err error) {
	url, err := i.url.Standard()
	if err != nil {
		return 0, err
	}
	id := h.o.Secret.Hash("webhook delivery", i.run)[:32]
	at := strconv.FormatInt(h.o.Now().Unix(), 10)
	req := (&http.Request{
		Method: http.MethodPost, URL: url, Host: i.url.Authority(), Header: http.Header{
			"Content-Type": {"application/json"}, "Accept-Encoding": {"identity"}, "User-Agent": {"glovebox"},
			api.WebhookIDHeader: {id}, api.WebhookTimestampHeader: {at},
			api.WebhookSignatureHeader: {api.SignWebhook(h.SecretOf(i.key), id, at, body)},
		},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(ctx)
	resp, err := h.transport().RoundTrip(req)
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close() // the connection ends with it
	return resp.StatusCode, nil
}

// transport serves one request: no proxy, no HTTP/2, no redirects, nothing kept.
func (h *Hooks) transport() *http.Transport {
	var http1 http.Protocols
	http1.SetHTTP1(true)
	return &http.Transport{
		DialContext: h.dialer.DialContext, TLSClientConfig: h.tls, Protocols: &http1,
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHead,
	}
}
