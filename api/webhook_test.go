package api_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
)

// TestVerifyWebhook: what is signed passes, and each neighbour of it does not.
//
// proves part of H-68
func TestVerifyWebhook(t *testing.T) {
	const secret, id, at, body = "gbw_secret", "0123456789abcdef", "1800000000", `{"id":"x"}`
	now := time.Unix(1800000000, 0)
	// By openssl: printf %s '0123456789abcdef.1800000000.{"id":"x"}' | openssl dgst -sha256 -hmac gbw_secret
	const sum = "v1=7de7da90ec28597f0e6f958680a9ea43aff628e27e0d07c7993931e0c3f304d7"
	if got := api.SignWebhook(secret, id, at, []byte(body)); got != sum {
		t.Errorf("signed %s", got)
	}
	type call struct {
		secret, id, at, sum, body string
		now                       time.Time
		tolerance                 time.Duration
	}
	good := call{secret, id, at, sum, body, now, 0}
	with := func(f func(*call)) call { c := good; f(&c); return c }
	verify := func(c call) error {
		return api.VerifyWebhook(c.secret, c.id, c.at, c.sum, []byte(c.body), c.now, c.tolerance)
	}
	for name, c := range map[string]call{
		"as it was": good, "a second signature": with(func(c *call) { c.sum = "v1=" + strings.Repeat("0", 64) + ", " + sum }),
		"almost too old": with(func(c *call) { c.now = now.Add(5 * time.Minute) }), "almost too new": with(func(c *call) { c.now = now.Add(-5 * time.Minute) }),
		"by its own tolerance": with(func(c *call) { c.now, c.tolerance = now.Add(time.Hour), time.Hour }),
	} {
		if err := verify(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]call{
		"another secret": with(func(c *call) { c.secret = "gbw_Secret" }), "no secret": with(func(c *call) { c.secret = "" }),
		"signed without a secret": with(func(c *call) { c.secret = ""; c.sum = api.SignWebhook("", id, at, []byte(body)) }),
		"another id":              with(func(c *call) { c.id = "1123456789abcdef" }),
		"another body":            with(func(c *call) { c.body = `{"id":"y"}` }), "no body": with(func(c *call) { c.body = "" }),
		"another time": with(func(c *call) { c.at = "1800000001" }), "no time": with(func(c *call) { c.at = "" }), "plus": with(func(c *call) { c.at = "+1800000000" }),
		"zeros": with(func(c *call) { c.at = "01800000000" }), "a space": with(func(c *call) { c.at = " 1800000000" }),
		"no signature": with(func(c *call) { c.sum = "" }), "no version": with(func(c *call) { c.sum = strings.TrimPrefix(sum, "v1=") }), "v0": with(func(c *call) { c.sum = "v0" + sum[2:] }),
		"upper case": with(func(c *call) { c.sum = "v1=" + strings.ToUpper(sum[3:]) }), "cut": with(func(c *call) { c.sum = sum[:len(sum)-1] }),
		"the fifth": with(func(c *call) { c.sum = strings.Repeat("v1=0,", 4) + sum }),
		"too old":   with(func(c *call) { c.now = now.Add(5*time.Minute + time.Second) }), "too new": with(func(c *call) { c.now = now.Add(-5*time.Minute - time.Second) }),
		// The same bytes under the hash, divided in another way.
		"moved dot": with(func(c *call) { c.id, c.at = id+"."+at, "1800000000"; c.body = strings.TrimPrefix(body, "x") }),
		"id in body": with(func(c *call) {
			c.id, c.at, c.body = "a", "1", "b"
			c.sum = api.SignWebhook(secret, "a", "1", []byte("c"))
		}),
		"no id":   with(func(c *call) { c.id = ""; c.sum = api.SignWebhook(secret, "", at, []byte(body)) }),
		"long id": with(func(c *call) { c.id = strings.Repeat("a", 65); c.sum = api.SignWebhook(secret, c.id, at, []byte(body)) }),
		"dot in the id": with(func(c *call) {
			c.id = "a.1"
			c.sum = api.SignWebhook(secret, c.id, at, []byte(body))
		}),
	} {
		if err := verify(c); !errors.Is(err, api.ErrWebhook) || strings.Contains(err.Error(), "gbw_") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
