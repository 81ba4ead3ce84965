package cell

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/attest"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
	"github.com/glovebox-dev/glovebox/internal/seccomp"
)

// policy is one profile, compiled for this machine.
type policy struct {
	*seccomp.Policy
	program []byte
	// Of a traced cell, see seccomp.TracePrograms; program is then its Base.
	watch, judge []byte
	// What the host's plan adds: both Landlock rulesets, and the hash of all of it.
	guest, init cellproto.Landlock
	hash        string
}

func loadPolicy(k kind, additions []string, off func(layer string) bool) (*policy, error) {
	p, err := seccomp.Load(k.profile, seccomp.Options{Loopback: k.loopback})
	if err != nil || k.profile == sealedProfile {
		return nil, &api.FieldError{Field: "profile", Value: k.profile, Reason: "no such profile"}
	}
	if len(additions) > 0 {
		if p, err = p.With(additions); err != nil {
			return nil, fmt.Errorf("additions to profile %s: %w", k.profile, err)
		}
	}
	arch, ok := seccomp.Host()
	if !ok {
		return nil, fmt.Errorf("no system call table for this machine")
	}
	if k.traced.on {
		return tracePolicy(p, arch, k.traced, off("judge"))
	}
	program, err := p.Compile(arch, !off("notify"))
	if err != nil {
		return nil, err
	}
	return &policy{Policy: p, program: seccomp.Encode(program)}, nil
}

// policy returns the filter of a kind of cell, made at the first use.
func (h *Host) policy(k kind) (*policy, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if (k.profile == WorkerProfile) != (h.cfg.Worker != nil) { // a worker's is for Glovebox's own program alone
		return nil, &api.FieldError{Field: "profile", Value: k.profile, Reason: "no such profile"}
	}
	key := k.listed()
	p := h.policies[key]
	if p == nil {
		var err error
		if p, err = loadPolicy(key, h.cfg.Additions[k.profile], h.off); err != nil {
			return nil, err
		}
		h.policies[key] = p
	}
	return p, nil
}

// inForce returns all that holds for a kind of cell in the root of a plan.
func (h *Host) inForce(pl *plan, k kind) (*policy, error) {
	filter, err := h.policy(k)
	if err != nil {
		return nil, err
	}
	key := k.listed()
	pl.mu.Lock()
	defer pl.mu.Unlock()
	p := pl.policies[key]
	if p == nil {
		whole := *filter
		p = &whole
		p.guest, p.init = pl.landlock(h.feat.landlock, k.loopback)
		p.hash = pl.hash(p)
		pl.policies[key] = p
	}
	return p, nil
}

// hash identifies every list of a profile as it is in force here: the filter,
// both Landlock rulesets, what the root shows, what proc shows, and what is
// probed.
func (p *plan) hash(pol *policy) string {
	d := sha256.New()
	fmt.Fprintln(d, pol.Hash(), pol.guest, pol.init)
	p.write(d)
	d.Write(pol.judge) // and whatever a trace lets through
	fmt.Fprintln(d, procKeep, procCommon, attest.Names(nil, false))
	return hex.EncodeToString(d.Sum(nil))
}

// write writes the steps of the root in a form in which no two are the same.
func (p *plan) write(w io.Writer) {
	for _, o := range p.ops {
		fmt.Fprintf(w, "%d %q %q %o %q\n", o.Kind, o.Path, o.Source, o.Mode, o.Data)
	}
}
