package webhook

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
)

// TestDelivery: what a receiver gets, all of it, and that it can tell by the secret
// that it is meant.
//
// proves part of H-68
func TestDelivery(t *testing.T) {
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) })
	w := newWorld(t, r, Options{})
	d := w.run(r.url())
	w.want(Queued, Delivered)
	got := r.requests()
	if len(got) != 1 {
		t.Fatalf("%d requests", len(got))
	}
	q, h := got[0], got[0].Header
	if q.Method != "POST" || q.Proto != "HTTP/1.1" || q.RequestURI != "/hook?token=url-secret" || q.Host != r.host() {
		t.Errorf("%s %s %s to %s", q.Method, q.RequestURI, q.Proto, q.Host)
	}
	id, at, sum := h.Get(api.WebhookIDHeader), h.Get(api.WebhookTimestampHeader), h.Get(api.WebhookSignatureHeader)
	if err := api.VerifyWebhook(w.h.SecretOf(d.KeyID), id, at, sum, q.body, time.Now(), 0); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"another key's secret": api.VerifyWebhook(w.h.SecretOf(credential.KeyID.New()), id, at, sum, q.body, time.Now(), 0),
		"another body":         api.VerifyWebhook(w.h.SecretOf(d.KeyID), id, at, sum, append(slices.Clone(q.body), ' '), time.Now(), 0),
		"another id":           api.VerifyWebhook(w.h.SecretOf(d.KeyID), id[1:]+"0", at, sum, q.body, time.Now(), 0),
		"later":                api.VerifyWebhook(w.h.SecretOf(d.KeyID), id, at, sum, q.body, time.Now().Add(6*time.Minute), 0),
	} {
		if !errors.Is(err, api.ErrWebhook) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{api.WebhookIDHeader, api.WebhookTimestampHeader, api.WebhookSignatureHeader, "Content-Length"} {
		h.Del(name)
	}
	if diff := cmp.Diff(http.Header{"Content-Type": {"application/json"}, "User-Agent": {"glovebox"}, "Accept-Encoding": {"identity"}, "Connection": {"close"}}, h); diff != "" {
		t.Errorf("headers: -want +got\n%s", diff)
	}
	var run api.Run
	if err := json.Unmarshal(q.body, &run); err != nil || run.ID != d.RunID || run.State != api.RunFinished || run.OwnerToken != "" ||
		run.Result.Stdout != "hello\n" || run.APIVersion != api.Version {
		t.Errorf("%v: %s", err, q.body)
	}
	if proxied.Load() != 0 {
		t.Errorf("the proxy got %d connections", proxied.Load())
	}
	// The control: who asks the environment goes to the proxy.
	if err := post(http.DefaultClient, r.url()); err == nil || proxied.Load() == 0 {
		t.Errorf("the control: %v; the proxy got %d", err, proxied.Load())
	}
	proxied.Store(0)
}

// TestCheck: of the forms of case 121, and of others, none passes; what passes is one
// spelling of an https URL of a listed host and port.
//
// proves part of H-68 S-16
func TestCheck(t *testing.T) {
	w := newWorld(t, nil, Options{Allow: []string{"hooks.example.com", "hooks.example.com:8443", "8.8.8.8", "[2606:4700::1111]"}})
	var forms struct{ Block, Allow []string }
	text, err := os.ReadFile("../../testdata/cases/121-ssrf-forms.json")
	must(t, err)
	must(t, json.Unmarshal(text, &forms))
	for _, f := range append(forms.Block,
		"", "http://hooks.example.com/", "http://hooks.example.com:443/", "http://hooks.example.com:8443/", "https://hooks.example.com:444/", "https://hooks.example.com:80/", "https://other.example.com/", "https://example.com/",
		"https://xhooks.example.com/", "https://a.hooks.example.com/", "https://hooks.example.com./", "https://HOOKS.example.com/", "https://hooks.example.com@evil.test/",
		"https://evil.test/hooks.example.com", "https://hooks.example.com/#x", "https://u:p@hooks.example.com/", "https://hooks.example.com/a/../b", "https://8.8.8.9/",
		"https://[::ffff:8.8.8.8]/", "https://134744072/", "https://0x8.8.8.8/", "https://8.8.2056/", "https://hooks.example.com/"+strings.Repeat("a", MaxURL),
		"https://hooks.example.com/\r\nX: y", "https://hooks.example.com/\x00", "ftp://hooks.example.com/", "https://*.example.com/",
	) {
		err := w.h.Check(f)
		bad, ok := errors.AsType[*api.FieldError](err)
		if !ok || bad.Field != "webhook" || bad.Value != nil {
			t.Errorf("%.60q: %v", f, err)
		}
		if err := w.h.Expect(t.Context(), newDelivery(f)); err == nil {
			t.Errorf("%.60q is expected", f)
		}
	}
	for _, f := range []string{"https://hooks.example.com", "https://hooks.example.com:443/", "https://hooks.example.com:8443/a?b=c", "https://8.8.8.8/", "https://[2606:4700::1111]/",
		"https://hooks.example.com/" + strings.Repeat("a", MaxURL-26)} {
		if err := w.h.Check(f); err != nil {
			t.Errorf("control %.60q: %v", f, err)
		}
	}
	off := newWorld(t, nil, Options{})
	if err := off.h.Check("https://hooks.example.com"); err == nil || off.h.On() {
		t.Errorf("without a list: %v", err)
	}
	// The longest URL there can be is written down, whatever JSON makes of its letters.
	long := newDelivery("https://hooks.example.com/?" + strings.Repeat("&", MaxURL-27))
	if err := w.h.Expect(t.Context(), long); err != nil {
		t.Error(err)
	}
}

// Options that cannot be are refused by name.
func TestOptions(t *testing.T) {
	q, err := queue.Open(t.Context(), queue.Options{Dir: t.TempDir() + "/queue", MinFree: 1})
	must(t, err)
	defer q.Close()
	s := credential.NewSecret()
	for field, o := range map[string]Options{
		"Queue": {Secret: s}, "Allow[1]": {Queue: q, Secret: s, Allow: []string{"a.test", "*.a.test"}}, "Allow[0]": {Queue: q, Secret: s, Allow: []string{"https://a.test"}},
		"AllowAddresses[0]": {Queue: q, Secret: s, AllowAddresses: []netip.Prefix{{}}}, "Timeout": {Queue: q, Secret: s, Timeout: time.Hour},
		"Pauses": {Queue: q, Secret: s, Pauses: make([]time.Duration, 6)}, "PerMinute": {Queue: q, Secret: s, PerMinute: -1}, "MaxPending": {Queue: q, Secret: s, MaxPending: 2_000_000},
	} {
		_, err := New(t.Context(), o)
		if bad, ok := errors.AsType[*api.FieldError](err); !ok || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// What Observe gets is what the metrics know.
func TestOutcomes(t *testing.T) {
	for a, b := range map[string]string{Queued: telemetry.WebhookQueued, Delivered: telemetry.WebhookDelivered, Retried: telemetry.WebhookRetried,
		Failed: telemetry.WebhookFailed, Dropped: telemetry.WebhookDropped} {
		if a != b {
			t.Errorf("%s is %s there", a, b)
		}
	}
}

// A result that is too long for a webhook comes without what is long.
func TestLongResult(t *testing.T) {
	r := newReceiver(t, nil)
	w := newWorld(t, r, Options{})
	for _, result := range []api.Result{
		{Verdict: api.OutputLimit, Stdout: strings.Repeat("x", MaxBody)},
		{Verdict: api.OutputLimit, Stdout: strings.Repeat("\x00", 2<<20), Compile: &api.Compile{Stderr: strings.Repeat("e", 1<<20)}, Artifacts: []api.Artifact{{Name: strings.Repeat("n", 1<<20)}}},
		{Verdict: api.OutputLimit, Message: strings.Repeat("m", MaxBody)},
	} {
		w.submit(newDelivery(r.url()))
		w.finish(w.take(), result)
		w.want(Queued, Delivered)
		q := r.requests()[len(r.requests())-1]
		var run api.Run
		if err := json.Unmarshal(q.body, &run); err != nil || len(q.body) > MaxBody || run.Result.Verdict != api.OutputLimit || run.Result.Stdout != "" || len(run.Result.Warnings) != 1 {
			t.Errorf("%v: %d bytes: %.300s", err, len(q.body), q.body)
		}
	}
	w.submit(newDelivery(r.url()))
	w.finish(w.take(), api.Result{Verdict: api.OK, Stdout: strings.Repeat("x", MaxBody-2000)})
	w.want(Queued, Delivered)
	if q := r.requests()[3]; len(q.body) < MaxBody-2000 || strings.Contains(string(q.body), "warnings") {
		t.Errorf("the control has %d bytes", len(q.body))
	}
}
