package glovebox

import (
	"runtime"
	"slices"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/seccomp"
)

// Bounds are the smallest and the largest values that the limits of a program
// may have on this machine, for a front end that says so before it has a Box.
// Options.MaxLimits may lower the second further.
func Bounds() (floor, ceiling Limits) {
	return api.MinLimits(), api.MaxLimits(runtime.NumCPU(), machineMemory())
}

// checkProfiles refuses additions to a profile that there is none of, and
// system calls that there are none of or that are never allowed.
func checkProfiles(profiles map[string][]string) error {
	for name, calls := range profiles {
		field := "Profiles." + name
		p, err := seccomp.Load(name, seccomp.Options{})
		if err != nil || !slices.Contains(seccomp.Profiles(), name) {
			return &FieldError{Field: field, Reason: "there is no such profile"}
		}
		for _, call := range calls {
			if _, err := p.With([]string{call}); err != nil {
				reason := "there is no such system call"
				if why := p.Reason(call); why != "" {
					reason = "cannot be allowed: " + why
				}
				return &FieldError{Field: field, Value: call, Reason: reason}
			}
		}
	}
	return nil
}
