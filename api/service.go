package api

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Submission is the body of POST /v1/runs: a Program, and how its run is taken part in.
type Submission struct {
	Program
	// Interactive keeps the program's standard input open after Stdin, for what
	// comes over POST /v1/runs/{id}/stdin or the WebSocket, until it is closed there.
	Interactive bool `json:"interactive,omitempty" for:"library,operator,client"`
	// Webhook is an https URL that gets the run when it has ended. It is for those who
	// have a key, on a service that allows it.
	Webhook string `json:"webhook,omitempty" for:"library,operator,client"`
}

// RunState is where a run of a service is.
type RunState string

// The states of a run.
const (
	RunQueued   RunState = "queued"   // accepted; Position says how many are before it
	RunRunning  RunState = "running"  // it has begun, and will not begin again
	RunFinished RunState = "finished" // there is a Result
)

// Run is a run of a service: the answer to POST /v1/runs and GET /v1/runs/{id}.
type Run struct {
	ID    string   `json:"id" for:"library"`
	State RunState `json:"state" for:"library"`
	// OwnerToken controls the run: stdin, signals, cancel. It is in the answer to the
	// submission alone.
	OwnerToken string `json:"owner_token,omitempty" for:"library"`
	// Position is how many runs are before this one; nil unless it is queued.
	Position *int `json:"position,omitempty" for:"library"`
	// Losses is how many times an executor was lost before the run had begun.
	Losses int `json:"losses,omitempty" for:"library"`
	// Result is nil until the run has ended.
	Result     *Result `json:"result,omitempty" for:"library"`
	APIVersion string  `json:"api_version" for:"library"`
}

// ArtifactPath is where a service has an artifact of a run.
func ArtifactPath(id, name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/v1/runs/" + id + "/artifacts/" + strings.Join(parts, "/")
}

// Frame is one message of a run's WebSocket, and the data of one server-sent event.
// Its Type is "queued" (Position), "compiling", "started", one of an [Event], or
// "error" (Code, Message), which says why the stream ends before the run, or why a
// message of the client was refused. See docs/streams.md.
type Frame struct {
	Event
	// Seq is the frame's number among those of its run, growing, with gaps. A stream
	// that begins after it goes on where another one broke off. Zero for "queued" and
	// "error", which are of the stream and not of the run.
	Seq      uint64 `json:"seq,omitempty" for:"library"`
	Position *int   `json:"position,omitempty" for:"library"`
	Code     Code   `json:"code,omitempty" for:"library"`
	Message  string `json:"message,omitempty" for:"library"`
}

// ClientFrame is one message to a run's WebSocket: "auth" (Token), "stdin" (Data or
// Base64), "stdin_close" or "signal" (Name). All but the first need an "auth" before.
type ClientFrame struct {
	Type   string `json:"type" for:"library,client"`
	Token  string `json:"token,omitempty" for:"library,client"`
	Data   string `json:"data,omitempty" for:"library,client"`
	Base64 string `json:"base64,omitempty" for:"library,client"`
	Name   string `json:"name,omitempty" for:"library,client"`
}

// StdinBody is the body of POST /v1/runs/{id}/stdin. Close closes the standard input
// after Data.
type StdinBody struct {
	Data   string `json:"data,omitempty" for:"library,client"`
	Base64 string `json:"base64,omitempty" for:"library,client"`
	Close  bool   `json:"close,omitempty" for:"library,client"`
}

// SignalBody is the body of POST /v1/runs/{id}/signal.
type SignalBody struct {
	// Name is a signal as in signal(7): "SIGINT".
	Name string `json:"name" for:"library,client"`
}

// KeyInfo is an API key as its holder sees it: the answer to POST /v1/keys and GET
// /v1/keys/self.
type KeyInfo struct {
	// Key is the key itself, in the answer that makes it and never again.
	Key string `json:"key,omitempty" for:"library"`
	// ID is the key's public name.
	ID string `json:"id" for:"library"`
	// WebhookSecret is what webhooks of this key are signed with, shown like Key.
	WebhookSecret string    `json:"webhook_secret,omitempty" for:"library"`
	Created       time.Time `json:"created" for:"library"`
	Expires       time.Time `json:"expires" for:"library"`
	// Runs is the hourly quota, nil where none is in force.
	Runs       *Quota `json:"runs,omitempty" for:"library"`
	APIVersion string `json:"api_version" for:"library"`
}

// KeyList is the operator's list of keys: the answer to GET /v1/keys.
type KeyList struct {
	Keys       []KeyInfo `json:"keys" for:"library"`
	APIVersion string    `json:"api_version" for:"library"`
}

// Quota is what a client may do in a window and has done.
type Quota struct {
	Limit     int       `json:"limit" for:"library"`
	Used      int       `json:"used" for:"library"`
	Remaining int       `json:"remaining" for:"library"`
	Reset     time.Time `json:"reset" for:"library"`
}

// LimitsInfo is the answer to GET /v1/limits: what a submission may ask for, and
// what the client who asks may do.
type LimitsInfo struct {
	Defaults        Limits `json:"defaults" for:"library"`
	CompileDefaults Limits `json:"compile_defaults" for:"library"`
	Floors          Limits `json:"floors" for:"library"`
	Ceilings        Limits `json:"ceilings" for:"library"`
	// BodyBytes is the longest body; WaitMS the longest ?wait.
	BodyBytes int64 `json:"body_bytes" for:"library"`
	WaitMS    int64 `json:"wait_ms" for:"library"`
	// Slots run at once, Backlog wait, in all; InFlight is how many of them may be one
	// client's, Sockets how many streams may watch one run.
	Slots    int `json:"slots" for:"library"`
	Backlog  int `json:"backlog" for:"library"`
	InFlight int `json:"in_flight" for:"library"`
	Sockets  int `json:"sockets" for:"library"`
	// Runs and Keys are the client's hourly quotas, nil where none is in force.
	Runs *Quota `json:"runs,omitempty" for:"library"`
	Keys *Quota `json:"keys,omitempty" for:"library"`
	// RetentionMS is how long results and artifacts are kept.
	RetentionMS int64  `json:"retention_ms" for:"library"`
	APIVersion  string `json:"api_version" for:"library"`
}

// ServiceStatus is the answer to GET /v1/status. Layers have their details for the
// operator alone.
type ServiceStatus struct {
	Status
	Version  string `json:"version" for:"library"`
	Draining bool   `json:"draining" for:"library"`
	Running  int    `json:"running" for:"library"`
	Waiting  int    `json:"waiting" for:"library"`
	Slots    int    `json:"slots" for:"library"`
	Backlog  int    `json:"backlog" for:"library"`
	UptimeMS int64  `json:"uptime_ms" for:"library"`
}

// LanguageList is the answer to GET /v1/languages.
type LanguageList struct {
	Languages  []Language `json:"languages" for:"library"`
	APIVersion string     `json:"api_version" for:"library"`
}

// Code is the machine-readable reason of a refusal; the set is closed.
type Code string

// The codes, each with its HTTP status.
const (
	CodeBadRequest     Code = "bad_request"         // 400: the request itself; no field of a body
	CodeBadField       Code = "bad_field"           // 400: Field says which
	CodeDeniedByPolicy Code = "denied_by_policy"    // 400: the service's gate refuses the program
	CodeUnauthorized   Code = "unauthorized"        // 401: a key or token is needed, or is not one
	CodeForbidden      Code = "forbidden"           // 403: not the owner's token; a foreign Origin
	CodeNotFound       Code = "not_found"           // 404: no such run, path, file
	CodeMethod         Code = "method_not_allowed"  // 405: Allow says which are
	CodeTimeout        Code = "request_timeout"     // 408: the body came too slowly
	CodeConflict       Code = "conflict"            // 409: not in this state of the run; the Idempotency-Key had another body
	CodeLength         Code = "length_required"     // 411: a body in chunks
	CodeTooLarge       Code = "too_large"           // 413: the body, or a piece of standard input
	CodeMediaType      Code = "unsupported_media"   // 415: not application/json, or an encoded body
	CodeMisdirected    Code = "misdirected"         // 421: the Host is not one of this service
	CodeUpgrade        Code = "upgrade_required"    // 426: not a WebSocket handshake of version 13
	CodeQuota          Code = "quota"               // 429: the hourly quota is used up
	CodeInFlight       Code = "in_flight"           // 429: the client has as many unfinished runs as it may
	CodeBacklog        Code = "backlog"             // 429: as many runs wait as may
	CodeBusy           Code = "busy"                // 429: as many connections, waits or streams as may, in all or of this client
	CodeSlowed         Code = "slowed"              // 429: this program has ended its executor before
	CodeInternal       Code = "internal"            // 500: Glovebox itself failed
	CodeDraining       Code = "draining"            // 503: the service is about to end
	CodeStorage        Code = "storage"             // 503: the disk or its share is full
	CodeUnavailable    Code = "sandbox_unavailable" // 503: this host seals no cell
)

var statuses = map[Code]int{
	CodeBadRequest:     400,
	CodeBadField:       400,
	CodeDeniedByPolicy: 400,
	CodeUnauthorized:   401,
	CodeForbidden:      403,
	CodeNotFound:       404,
	CodeMethod:         405,
	CodeTimeout:        408,
	CodeConflict:       409,
	CodeLength:         411,
	CodeTooLarge:       413,
	CodeMediaType:      415,
	CodeMisdirected:    421,
	CodeUpgrade:        426,
	CodeQuota:          429,
	CodeInFlight:       429,
	CodeBacklog:        429,
	CodeBusy:           429,
	CodeSlowed:         429,
	CodeInternal:       500,
	CodeDraining:       503,
	CodeStorage:        503,
	CodeUnavailable:    503,
}

// HTTPStatus is the status that answers with the code have; 500 for one that is none.
func (c Code) HTTPStatus() int {
	if s, ok := statuses[c]; ok {
		return s
	}
	return 500
}

// Codes are all of them.
func Codes() []Code { return slices.Sorted(maps.Keys(statuses)) }

// ErrorBody is the body of every answer that is an error.
type ErrorBody struct {
	Error ServiceError `json:"error" for:"library"`
}

// ServiceError is an error that a service answers with. It is a Go error.
type ServiceError struct {
	Code    Code   `json:"code" for:"library"`
	Message string `json:"message" for:"library"`
	// Field is the path of the refused field of a body.
	Field string `json:"field,omitempty" for:"library"`
	// RetryAfterMS is when to try again, with 429 and 503; also in the header Retry-After.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty" for:"library"`
	// RequestID names the request in the service's log.
	RequestID string `json:"request_id,omitempty" for:"library"`
}

// Error is the message, and the code in parentheses.
func (e *ServiceError) Error() string { return e.Message + " (" + string(e.Code) + ")" }
