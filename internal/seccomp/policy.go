package seccomp

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"sort"
	"strings"
)

//go:embed policy/*.txt
var policyFiles embed.FS

// Errors that Load and With wrap.
var (
	ErrUnknownProfile = errors.New("seccomp: unknown profile")
	ErrUnknownCall    = errors.New("seccomp: no such system call")
	ErrDenied         = errors.New("seccomp: always denied")
	ErrLimited        = errors.New("seccomp: allowed within limits that cannot be widened")
)

// Options choose a variant of a profile.
type Options struct {
	// Loopback adds internet stream and datagram sockets. They are safe only in a network namespace of
	// the cell's own. Default: no socket can be made, only stream pairs.
	Loopback bool
}

// Policy is one profile: an answer for every system call. It does not change once made, and may be used
// from several goroutines.
type Policy struct {
	rows map[string]*row
	text string
	hash string
}

// Load reads an embedded profile ("language", "compile", "worker" or "sealed"). It returns ErrUnknownProfile for another
// name, and an error that names file and row if the embedded data is broken.
func Load(profile string, opts Options) (*Policy, error) {
	if strings.Trim(profile, "abcdefghijklmnopqrstuvwxyz") != "" || profile == "" || profile == "loopback" {
		return nil, fmt.Errorf("%w: %q", ErrUnknownProfile, profile)
	}
	p := newParser(policyFiles.ReadFile)
	if _, err := policyFiles.ReadFile("policy/" + profile + ".txt"); err != nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknownProfile, profile)
	}
	if err := p.file(profile); err != nil {
		return nil, err
	}
	if opts.Loopback && (profile == "worker" || profile == "sealed") {
		return nil, fmt.Errorf("%w: %q has no network", ErrUnknownProfile, profile)
	}
	if opts.Loopback {
		p.replace = true
		if err := p.file("loopback"); err != nil {
			return nil, err
		}
	}
	return newPolicy(p.rows)
}

// Profiles are those that a program of a caller may run under. The others are
// for Glovebox's own programs, which need calls that no guest gets.
func Profiles() []string { return []string{"language", "compile"} }

// newPolicy freezes rows and works out the canonical text and its hash.
func newPolicy(rows map[string]*row) (*Policy, error) {
	all, err := tables()
	if err != nil {
		return nil, err
	}
	p := &Policy{rows: rows}
	var b strings.Builder
	// The numbers are part of what the policy means, so their digest is part of its text.
	for _, a := range []Arch{X86_64, Aarch64} {
		sum := sha256.Sum256([]byte(all[a].text))
		fmt.Fprintf(&b, "table %s %s\n", a, hex.EncodeToString(sum[:8]))
	}
	for _, name := range p.names() {
		fmt.Fprintf(&b, "%s %s\n", name, rows[name].canonical())
	}
	p.text = b.String()
	sum := sha256.Sum256([]byte(p.text))
	p.hash = hex.EncodeToString(sum[:])
	return p, nil
}

func (p *Policy) names() []string {
	names := make([]string, 0, len(p.rows))
	for n := range p.rows {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// With returns a policy that also allows the named calls, without argument rule. It returns an error that
// wraps ErrUnknownCall for a name that no table has, ErrDenied for a call that is always denied, and
// ErrLimited for a call that has an argument rule. A call that is allowed already stays so.
func (p *Policy) With(additions []string) (*Policy, error) {
	rows := make(map[string]*row, len(p.rows))
	for n, r := range p.rows {
		rows[n] = r
	}
	for _, name := range additions {
		r := rows[name]
		switch {
		case r == nil:
			return nil, fmt.Errorf("%w: %q", ErrUnknownCall, name)
		case r.alwaysDenied():
			return nil, fmt.Errorf("%w: %s (%s)", ErrDenied, name, r.reason)
		case len(r.branches) > 0:
			return nil, fmt.Errorf("%w: %s (%s)", ErrLimited, name, r.reason)
		}
		rows[name] = &row{name: name, last: Answer{Kind: Allow}, reason: "added by the host"}
	}
	return newPolicy(rows)
}

// String is the canonical text: the digests of the number tables, then one line a call, sorted, with
// every constant written as a number and without reasons. Two policies with the same text compile to the
// same program.
func (p *Policy) String() string { return p.text }

// Hash is the SHA-256 of String in hexadecimal.
func (p *Policy) Hash() string { return p.hash }

// Denied lists, sorted, the calls that With refuses because they are always denied.
func (p *Policy) Denied() []string { return p.pick((*row).alwaysDenied) }

// Killed lists, sorted, the calls of the kill class.
func (p *Policy) Killed() []string {
	return p.pick(func(r *row) bool { return len(r.branches) == 0 && r.last.Kind == Kill })
}

// Learnable lists, sorted, the refused calls that With accepts.
func (p *Policy) Learnable() []string {
	return p.pick(func(r *row) bool {
		return len(r.branches) == 0 && r.last.Kind == Refuse && !r.last.denied
	})
}

func (p *Policy) pick(want func(*row) bool) []string {
	var out []string
	for _, n := range p.names() {
		if want(p.rows[n]) {
			out = append(out, n)
		}
	}
	return out
}

// Reason is the sentence of the call's row, "" for a call without one.
func (p *Policy) Reason(name string) string {
	if r := p.rows[name]; r != nil {
		return r.reason
	}
	return ""
}
