package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/glovebox-dev/glovebox/preflight"
)

// AllOf allows what every one of its members allows. They are asked in their
// order, each with a copy of the source, until one denies. A member that panics,
// ends its goroutine or is nil denies. Without members it denies.
func AllOf(members ...Gate) Gate {
	members = slices.Clone(members)
	return func(ctx context.Context, source []byte, info Info) Verdict {
		if len(members) == 0 {
			return Verdict{Reason: "there is no gate to ask"}
		}
		for _, g := range members {
			switch a := askOne(ctx, g, source, info); {
			case a.late:
				return Verdict{Reason: "a gate did not answer in time"}
			case a.fault != "":
				return Verdict{Reason: a.fault}
			case !a.verdict.Allow:
				return a.verdict
			}
		}
		return Verdict{Allow: true}
	}
}

// AnyOf allows what one of its members allows. They are asked in their order, each
// with a copy of the source, until one allows; one that panics, ends its goroutine
// or is nil counts as one that denies. One that does not answer holds up those
// behind it until the time is over for all. What is denied has the verdict of the
// first member that gave one. Without members it denies.
func AnyOf(members ...Gate) Gate {
	members = slices.Clone(members)
	return func(ctx context.Context, source []byte, info Info) Verdict {
		first := Verdict{Reason: "there is no gate to ask"}
		given := false
		for _, g := range members {
			switch a := askOne(ctx, g, source, info); {
			case a.late:
				return Verdict{Reason: "a gate did not answer in time"}
			case a.fault != "":
				if !given {
					first.Reason = a.fault
				}
			case a.verdict.Allow:
				return Verdict{Allow: true}
			case !given:
				first, given = a.verdict, true
			}
		}
		return first
	}
}

// MaxBytes denies what is longer than n bytes.
func MaxBytes(n int) Gate {
	return func(_ context.Context, source []byte, _ Info) Verdict {
		return Verdict{Allow: len(source) <= n, Reason: fmt.Sprintf("it has %d bytes, and %d are allowed", len(source), n)}
	}
}

// Policy reads JavaScript by a [preflight.Policy]; what it says of Module and
// Await is replaced by what the text is going to be. A text of which that is not
// known for certain, such as a file that Node.js runs, is read in every way and
// denied if one is. Text that is JSON in form passes where it is imported, and as
// a file whose name ends in .json. Commands, variables and every other language
// are denied: it cannot read them.
//
// Of the text it sees names as they are written. Package js refuses code that is
// made of text at run time; Node.js in a cell does not.
func Policy(p preflight.Policy) Gate {
	p.Names, p.Members = slices.Clone(p.Names), slices.Clone(p.Members)
	return func(_ context.Context, source []byte, info Info) Verdict {
		readings, isJSON := readings(info)
		if isJSON && json.Valid(source) {
			return Verdict{Allow: true}
		}
		if len(readings) == 0 {
			return Verdict{Reason: "the policy reads JavaScript alone"}
		}
		text := string(source)
		for _, r := range readings {
			p := p
			p.Module, p.Await = r.module, r.await
			if result := p.Check(text); !result.OK() {
				return Verdict{Reason: "the policy does not allow it", Findings: result.Findings}
			}
		}
		return Verdict{Allow: true}
	}
}

// reading is a way to read JavaScript.
type reading struct{ module, await bool }

var (
	asScript = reading{}
	asModule = reading{module: true, await: true}
	asFeed   = reading{await: true}
)

// readings are the ways in which a text can come to run, none if it is no
// JavaScript; isJSON says that it may be JSON instead.
func readings(info Info) (ways []reading, isJSON bool) {
	switch info.Kind {
	case Command, Env:
		return nil, false
	case Script:
		return []reading{asScript}, false
	case Module:
		return []reading{asModule}, false
	case Feed: // without an await at its top the engine gets it as any script
		return []reading{asScript, asFeed}, false
	case JSON:
		return []reading{asScript, asFeed, asModule}, true
	}
	if info.Language != "javascript" && info.Language != "node" {
		return nil, false // much of other languages consists of the same tokens
	}
	return []reading{asScript, asFeed, asModule}, info.Kind == File && path.Ext(info.Name) == ".json"
}
