package service_test

import (
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/service"
	"github.com/glovebox-dev/glovebox/internal/webhook"
)

// A key holder's URL gets the run when it has ended, signed; anybody else's is refused,
// and so is every host that the operator has not listed.
//
// proves part of H-68
func TestWebhook(t *testing.T) {
	type post struct {
		head http.Header
		body []byte
	}
	got := make(chan post, 10)
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- post{r.Header, body}
	}))
	defer receiver.Close()
	roots := x509.NewCertPool()
	roots.AddCert(receiver.Certificate())
	_, url := open(t, service.Options{Hooks: webhook.Options{Allow: []string{strings.TrimPrefix(receiver.URL, "https://")}, RootCAs: roots,
		AllowAddresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})

	var key api.KeyInfo
	if a := ask(t, "POST", url+"/v1/keys", nil, &key); a.StatusCode != 201 || key.Key == "" || key.WebhookSecret == "" {
		t.Fatalf("%d %+v", a.StatusCode, key)
	}
	submission := api.Submission{Program: glovebox.Program{Command: []string{"/bin/echo", "told"}}, Webhook: receiver.URL + "/done"}
	var no api.ErrorBody
	if a := ask(t, "POST", url+"/v1/runs", submission, &no); a.StatusCode != 400 || no.Error.Field != "webhook" {
		t.Errorf("without a key: %d %+v", a.StatusCode, no)
	}
	other := submission
	other.Webhook = "https://169.254.169.254/latest"
	if a := ask(t, "POST", url+"/v1/runs", other, &no, "Authorization", "Bearer "+key.Key); a.StatusCode != 400 || no.Error.Field != "webhook" {
		t.Errorf("another host: %d %+v", a.StatusCode, no)
	}

	var run api.Run
	if a := ask(t, "POST", url+"/v1/runs", submission, &run, "Authorization", "Bearer "+key.Key); a.StatusCode != 202 && a.StatusCode != 200 { // it may have ended already
		t.Fatal(a.StatusCode)
	}
	var p post
	select {
	case p = <-got:
	case <-time.After(30 * time.Second):
		t.Fatal("nobody was told")
	}
	id, at, sig := p.head.Get(api.WebhookIDHeader), p.head.Get(api.WebhookTimestampHeader), p.head.Get(api.WebhookSignatureHeader)
	if err := api.VerifyWebhook(key.WebhookSecret, id, at, sig, p.body, time.Now(), 0); err != nil {
		t.Error(err)
	}
	var told api.Run
	if err := json.Unmarshal(p.body, &told); err != nil || told.ID != run.ID || told.Result == nil || told.Result.Stdout != "told\n" || told.OwnerToken != "" {
		t.Errorf("%s: %v", p.body, err)
	}
}

// The same Idempotency-Key is the same run, and no other body's, also after its end.
func TestIdempotencyKey(t *testing.T) {
	_, url := open(t, service.Options{})
	body := api.Submission{Program: glovebox.Program{Command: []string{"/bin/echo", "once"}}}
	var first, second api.Run
	head := []string{"Idempotency-Key", "0123456789abcdef"}
	if a := ask(t, "POST", url+"/v1/runs?wait=20s", body, &first, head...); a.StatusCode != 200 {
		t.Fatal(a.StatusCode)
	}
	if a := ask(t, "POST", url+"/v1/runs?wait=20s", body, &second, head...); a.StatusCode != 200 || second.ID != first.ID || second.OwnerToken != first.OwnerToken {
		t.Errorf("%d %+v", a.StatusCode, second)
	}
	for _, other := range []api.Submission{
		{Program: glovebox.Program{Command: []string{"/bin/echo", "twice"}}}, {Program: body.Program, Interactive: true},
	} {
		var no api.ErrorBody
		if a := ask(t, "POST", url+"/v1/runs?wait=20s", other, &no, head...); a.StatusCode != 409 || no.Error.Code != api.CodeConflict {
			t.Errorf("another body: %d %+v", a.StatusCode, no)
		}
	}
	var third api.Run
	if a := ask(t, "POST", url+"/v1/runs?wait=20s", body, &third, "Idempotency-Key", "0123456789abcdeg"); a.StatusCode != 200 || third.ID == first.ID {
		t.Errorf("another key: %d %+v", a.StatusCode, third)
	}
}
