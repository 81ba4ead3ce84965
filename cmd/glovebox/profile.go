package main

import (
	"errors"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/ownfile"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// maxProfile bounds the file of --profile.
const maxProfile = 64 << 10

// readProfile reads additions to a profile: {"profile": NAME, "allow": [CALL…]}.
// The file must belong to root or this user and be writable by no other. Keys
// are exact and given once.
func readProfile(path string) (name string, allow []string, err error) {
	text, err := ownfile.Read(path, ownfile.Options{MaxBytes: maxProfile})
	if err != nil {
		return "", nil, err
	}
	return parseProfile(text)
}

// profileFile is the text of that file.
type profileFile struct {
	Profile string   `json:"profile"`
	Allow   []string `json:"allow"`
}

func parseProfile(text []byte) (name string, allow []string, err error) {
	var p profileFile
	if err := strictjson.Decode(text, &p, strictjson.Options{MaxBytes: maxProfile}); err != nil {
		if field := (*glovebox.FieldError)(nil); errors.As(err, &field) && field.Field == "body" {
			err = errors.New(field.Reason)
		}
		return "", nil, err
	}
	switch {
	case p.Profile == "":
		return "", nil, errors.New(`"profile" is missing`)
	case len(p.Allow) == 0:
		return "", nil, errors.New(`"allow" is missing or empty`)
	}
	return p.Profile, p.Allow, nil
}
