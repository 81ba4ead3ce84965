package js

import (
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// callSize is what the arguments of one call take.
type callSize struct {
	encoded int64 // bytes, as they came
	taken   int64 // of the host's memory, as the decoder has counted
}

// release gives back what the arguments of a call took.
func (r *Runtime) release(size callSize) {
	r.mu.Lock()
	r.held -= size.encoded
	r.taken -= size.taken
	r.mu.Unlock()
}

// room bounds a value that comes now: by the limits, and by the memory that other
// values leave of HostBytes.
func (r *Runtime) room() wire.Budget {
	b := r.p.limits.budget()
	r.mu.Lock()
	b.Memory = int(max(r.p.limits.HostBytes-r.taken, 1)) // 0 would be the default
	r.mu.Unlock()
	return b
}

// tooMuch says what is too much of a call's arguments, "" for another error.
func tooMuch(err error) string {
	var limit *wire.LimitError
	switch {
	case err == errManyArguments:
		return err.Error()
	case errors.As(err, &limit) && limit.What == "memory":
		return "the arguments take more memory than the host has for them"
	}
	return ""
}

// maxArguments is how many arguments a call may have: each takes more memory than
// a value inside one of them.
const maxArguments = 10_000

// errManyArguments is the error of a call with more.
var errManyArguments = fmt.Errorf("more than %d arguments", maxArguments)

// arguments decodes the arguments of a call, an array, and says what they take.
// Only the goroutine that reads takes memory for what has come, so that what
// room said still holds.
func (r *Runtime) arguments(v wire.Value) ([]Value, int64, error) {
	tree, taken, err := wire.DecodeCounted(v, r.room())
	if err != nil {
		return nil, 0, err
	}
	list, ok := tree.([]any)
	if !ok {
		return nil, 0, errors.New("they are no array")
	}
	if len(list) > maxArguments {
		return nil, 0, errManyArguments
	}
	r.mu.Lock()
	r.taken += int64(taken)
	r.mu.Unlock()
	out := make([]Value, len(list))
	for i, a := range list {
		out[i] = valueOf(a, fmt.Sprintf("args[%d]", i))
	}
	return out, int64(taken), nil
}

// refuse answers a call that reaches no function. Whoever reads does not write: a
// worker that does not read would hold it up. Refusals reach the guest in the order
// of the calls, so that the same code comes to the same.
func (r *Runtime) refuse(m *wire.Call, size callSize, f *wire.Failure) {
	r.release(size)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusals = append(r.refusals, refusal{&wire.Answer{CallID: m.CallID, Failure: f}, m.Sync})
	if len(r.refusals) == 1 {
		go r.sendRefusals()
	}
}

// refusal is the answer to a call that was refused.
type refusal struct {
	answer *wire.Answer
	sync   bool
}

// sendRefusals sends them until there is none: the first stays while it is sent.
func (r *Runtime) sendRefusals() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.refusals) > 0 {
		next := r.refusals[0]
		r.mu.Unlock()
		r.answer(next.answer, next.sync)
		r.mu.Lock()
		r.refusals = r.refusals[1:]
	}
}

// errNoRoom is the error of an answer that there is no room for.
var errNoRoom = &GuestError{Name: "RangeError", Message: "the answers that were not read yet take more memory than the host has for them"}

// encode makes an answer's value, or its JSON, which takes room until it is
// written. One at a time: what is half made is counted nowhere.
func (r *Runtime) encode(result any) (value wire.Value, text string, err error) {
	r.encoding.Lock()
	defer r.encoding.Unlock()
	if value, text, err = encodeForEngine("result", result, r.p.limits.budget()); err != nil {
		return nil, "", err
	}
	size := int64(len(value) + len(text))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken+size > r.p.limits.HostBytes {
		return nil, "", errNoRoom
	}
	r.taken += size
	return value, text, nil
}

// taking ends a call: the worker is about to take its answer.
func (r *Runtime) taking() {
	r.mu.Lock()
	r.open--
	r.mu.Unlock()
}

// forgetAnswer gives back the room of an answer that was written, or never will
// be.
func (r *Runtime) forgetAnswer(m *wire.Answer) {
	r.mu.Lock()
	r.taken -= int64(len(m.Value) + len(m.JSON))
	r.mu.Unlock()
}
