package queue

import (
	"errors"
	"fmt"
	"strings"
)

// ErrName says that a token is not one that the service makes: 1 to 64 of
// A-Z a-z 0-9 _ and -.
var ErrName = errors.New("queue: not a name")

// maxToken is the length of a token.
const maxToken = 64

// name is a subject, or the name of a stream, consumer or bucket. Only build makes
// one, so that nothing from outside is ever a part of a subject that it should not
// be: names_test.go reads the package's source for others.
type name struct{ s string }

// shape is what a name is of. Its text has {} for each token.
type shape string

// The shapes. The first token of each is the space: installations that share a
// server have different ones.
const (
	jobsStream    shape = "{}_jobs"
	eventsStream  shape = "{}_events"
	objectsStream shape = "{}_objects_{}"
	bucketStream  shape = "KV_{}_{}" // as NATS's own tools expect it

	jobSubject      shape = "{}.job.{}.{}" // client, id
	jobsSubjects    shape = "{}.job.*.*"
	jobOfAnyone     shape = "{}.job.*.{}" // id
	jobsOfClient    shape = "{}.job.{}.*" // client
	controlSubject  shape = "{}.ev.{}.c"  // id
	dataSubject     shape = "{}.ev.{}.d"  // id
	runSubjects     shape = "{}.ev.{}.*"  // id
	eventsSubjects  shape = "{}.ev.*.*"
	liveSubjects    shape = "{}.live.*.*"
	eventsSource    shape = "{}.ev.>"
	liveDestination shape = "{}.live.>"

	objectSubject   shape = "{}.obj.{}.{}.{}" // bucket, owner, object
	ownerSubjects   shape = "{}.obj.{}.{}.*"  // bucket, owner
	objectsSubjects shape = "{}.obj.{}.*.*"   // bucket

	keySubject   shape = "$KV.{}_{}.{}" // bucket, key
	keysSubjects shape = "$KV.{}_{}.*"  // bucket

	directSubject shape = "$JS.API.DIRECT.GET.{}" // a stream, in the place of the space

	signalSubject shape = "{}.sig.{}" // id

	padSubject shape = "{}.pad.{}" // of a stream

	executorsName shape = "{}_executors"
)

// build makes a name of a shape and its tokens, in the queue's space. The error is
// [ErrName].
func (q *Queue) build(s shape, tokens ...string) (name, error) { return build(s, q.space, tokens...) }

func build(s shape, space string, tokens ...string) (name, error) {
	parts := strings.Split(string(s), "{}")
	if len(parts) != len(tokens)+2 {
		return name{}, fmt.Errorf("%w: %d tokens for %s", ErrName, len(tokens), s)
	}
	var b strings.Builder
	for i, part := range parts {
		b.WriteString(part)
		if i == len(parts)-1 {
			break
		}
		token := space
		if i > 0 {
			token = tokens[i-1]
		}
		if err := CheckToken(token); err != nil {
			return name{}, err
		}
		b.WriteString(token)
	}
	return name{b.String()}, nil
}

// fixed is build for shapes without tokens from outside: the space has been
// checked.
func (q *Queue) fixed(s shape) name {
	n, err := q.build(s)
	if err != nil {
		panic(err) // a shape with tokens: a fault of this package
	}
	return n
}

// heard is a subject that a server sent: nothing but token is done with it.
func heard(subject string) name { return name{subject} }

// token is the n-th part of a subject that a server sent, the first being 0.
func (n name) token(i int) string {
	parts := strings.Split(n.s, ".")
	if i >= len(parts) || CheckToken(parts[i]) != nil {
		return ""
	}
	return parts[i]
}

// CheckToken says whether a text can be an id, a client or a key: 1 to 64 of
// A-Z a-z 0-9 _ and -. The error is [ErrName] and does not repeat the text.
func CheckToken(s string) error {
	if s == "" || len(s) > maxToken {
		return fmt.Errorf("%w: %d bytes, not 1 to %d", ErrName, len(s), maxToken)
	}
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			continue
		}
		return fmt.Errorf("%w: byte %d is not a letter, digit, _ or -", ErrName, i)
	}
	return nil
}
