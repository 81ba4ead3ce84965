package glovebox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// The profiles of Glovebox's own programs, which may put themselves under
// further filters, are no caller's to name.
//
// proves part of O-13
func TestOwnProfilesAreNobodys(t *testing.T) {
	b := box(t)
	for _, name := range []string{"worker", "sealed", "loopback", "nothing"} {
		_, err := b.Run(context.Background(), glovebox.Program{Profile: name, Command: []string{"/bin/true"}})
		var field *glovebox.FieldError
		if !errors.As(err, &field) || field.Field != "profile" {
			t.Errorf("%s: %v", name, err)
		}
		_, err = glovebox.New(glovebox.Options{Profiles: map[string][]string{name: {"mincore"}}})
		if !errors.As(err, &field) || field.Field != "Profiles."+name {
			t.Errorf("additions to %s: %v", name, err)
		}
	}
	if r := run(t, b, glovebox.Program{Profile: "compile", Command: []string{"/bin/true"}}); r.Verdict != api.OK { // control
		t.Errorf("compile: %s", ended(r))
	}
}
