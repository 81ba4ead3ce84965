package bootstrap

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/jsc"
)

//go:embed keep.js
var keepSource string

// rootsSource are objects of the language that no property leads to.
const rootsSource = `(() => {
	const { getPrototypeOf } = Object
	const all = [getPrototypeOf(function* () {}), getPrototypeOf(async function () {}), getPrototypeOf(async function* () {}), (function* () {})(), (async function* () {})(), [].values(), new Map().entries(), new Set().values(),
		""[Symbol.iterator](), "".matchAll(/a/g)]
	if (typeof Iterator === "function") all.push(Iterator.from({ next() {} }), [].values().map((x) => x))
	return all
})()`

// makeKeep evaluates keep.js.
func (k *Codec) makeKeep(guest *jsc.Value) error {
	make, err := k.realm.Evaluate(keepSource, "", 1)
	if err != nil {
		return fmt.Errorf("bootstrap: keep: %w", err)
	}
	defer make.Release()
	part, err := k.c.Call(make, nil, k.isProxy, k.encode, guest)
	if err != nil {
		return fmt.Errorf("bootstrap: keep: %w", err)
	}
	defer part.Release()
	guest.Release()
	for name, to := range map[string]**jsc.Value{"capture": &k.capture, "state": &k.state} {
		text := k.c.Text(name)
		if *to, err = k.c.Call(part, nil, text); err != nil {
			return fmt.Errorf("bootstrap: keep: %w", err)
		}
		text.Release()
	}
	return nil
}

// Capture looks at the guest's world, to which State compares it. It is called
// once, when the world is whole and no guest code has run. ours is a function of the
// script: ours(name, value) is 1 for a property of the global object that the script
// has made later and that is as it was, 2 for one that is not, 0 for another.
func (k *Codec) Capture(ours *jsc.Value) error {
	roots, err := k.c.Evaluate(rootsSource, "", 1)
	if err != nil {
		return fmt.Errorf("bootstrap: capture: %w", err)
	}
	defer roots.Release()
	global, err := k.c.Evaluate("globalThis", "", 1)
	if err != nil {
		return fmt.Errorf("bootstrap: capture: %w", err)
	}
	defer global.Release()
	_, err = k.c.Call(k.capture, nil, global, roots, ours)
	if err != nil {
		return fmt.Errorf("bootstrap: capture: %w", err)
	}
	return nil
}

// NotPlain is the error of a state that is not plain data. Its text names the
// first thing that is not, by its path.
type NotPlain struct{ Text string }

// Error is the path and what is there.
func (n *NotPlain) Error() string { return n.Text }

// Lexical is a let, const or class of the global scope.
type Lexical struct {
	Name  string
	Const bool
}

// State returns the encoding of all globals that the guest has made: an array of
// arrays of kind, name and value, by name. values is an array of those of the
// lexical ones. No guest code runs. The error is a *NotPlain, or a *Refused for
// what is too large.
func (k *Codec) State(lexical []Lexical, values *jsc.Value) (*Encoding, error) {
	var names, constants strings.Builder
	for i, l := range lexical {
		if i > 0 {
			names.WriteByte(',')
		}
		names.WriteString(l.Name)
		if l.Const {
			constants.WriteByte('1')
		} else {
			constants.WriteByte('0')
		}
	}
	args := []*jsc.Value{k.c.Text(names.String()), k.c.Text(constants.String()), values}
	k.given = nil
	refused, err := k.c.Call(k.state, nil, args...)
	given := k.given
	k.given = nil
	args[0].Release()
	args[1].Release()
	if err != nil {
		return nil, err
	}
	defer refused.Release()
	if refused.Type() == jsc.String {
		text, err := refused.Text()
		if word, ok := strings.CutPrefix(text, "."); ok {
			return nil, errors.Join(&Refused{word}, err)
		}
		return nil, errors.Join(&NotPlain{strings.TrimPrefix(text, "!")}, err)
	}
	if given == nil {
		return nil, errors.New("bootstrap: nothing was delivered")
	}
	return given, nil
}
