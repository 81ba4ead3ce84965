package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"
)

// The headers of a webhook. The id is one delivery's, the same at each try, so that a
// receiver can drop what comes twice; the timestamp is the try's, in seconds since
// 1970; the signature is [SignWebhook] of both and the body.
const (
	WebhookIDHeader        = "Glovebox-Webhook-Id"
	WebhookTimestampHeader = "Glovebox-Webhook-Timestamp"
	WebhookSignatureHeader = "Glovebox-Webhook-Signature"
)

// WebhookTolerance is how old, and how new, a webhook may be unless more is said.
const WebhookTolerance = 5 * time.Minute

const (
	webhookVersion = "v1="
	// maxWebhookSignatures is how many signatures are looked at.
	maxWebhookSignatures = 4
)

// ErrWebhook says that a webhook is not from who has the secret, or not of this time.
var ErrWebhook = errors.New("not a webhook of this secret and time")

// SignWebhook is the signature of a webhook: "v1=" and HMAC-SHA256 in hexadecimal, over
// id, a dot, timestamp, a dot and body. The key is the secret as it is shown, all of it.
func SignWebhook(secret, id, timestamp string, body []byte) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(id + "." + timestamp + "."))
	h.Write(body)
	return webhookVersion + hex.EncodeToString(h.Sum(nil))
}

// VerifyWebhook is for the receiver: nil if the headers' values are those of a webhook
// with this body, signed with the secret not longer ago than tolerance, and not further
// ahead; 0 is [WebhookTolerance]. There may be several signatures, with commas between.
// The error is [ErrWebhook], whatever was wrong. What is verified can still come twice:
// whoever must not act twice remembers the ids for as long as the tolerance.
func VerifyWebhook(secret, id, timestamp, signature string, body []byte, now time.Time, tolerance time.Duration) error {
	if tolerance <= 0 {
		tolerance = WebhookTolerance
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || len(timestamp) > 12 || strconv.FormatInt(seconds, 10) != timestamp || secret == "" || !webhookID(id) {
		return ErrWebhook
	}
	want := []byte(SignWebhook(secret, id, timestamp, body))
	good := false
	for i, s := range strings.Split(signature, ",") {
		good = i < maxWebhookSignatures && hmac.Equal([]byte(strings.TrimSpace(s)), want) || good
	}
	if age := now.Sub(time.Unix(seconds, 0)); !good || age > tolerance || age < -tolerance {
		return ErrWebhook
	}
	return nil
}

// webhookID tells whether an id could be one: no dot, so that what is signed can be
// read in one way only.
func webhookID(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-") == ""
}
