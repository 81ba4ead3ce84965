package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxProfile bounds the file of --profile.
const maxProfile = 64 << 10

// readProfile reads additions to a profile: {"profile": NAME, "allow": [CALL…]}.
// The file must belong to root or this user and be writable by no other. Keys
// are exact and given once.
func readProfile(path string) (name string, allow []string, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", nil, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", nil, errors.New("is not a regular file")
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return "", nil, fmt.Errorf("belongs to user %d; must belong to root or to you", st.Uid)
	case st.Mode&0o022 != 0:
		return "", nil, fmt.Errorf("may be written by others (mode %#o); chmod go-w it", st.Mode&0o777)
	case st.Size > maxProfile:
		return "", nil, fmt.Errorf("must have at most %s", size.format(maxProfile, " "))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxProfile))
	if err != nil {
		return "", nil, err
	}
	return parseProfile(text)
}

func parseProfile(text []byte) (name string, allow []string, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return "", nil, errors.New("is not a JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return "", nil, err
		}
		key, _ := t.(string)
		if seen[key] {
			return "", nil, fmt.Errorf("the key %q is given twice", key)
		}
		seen[key] = true
		switch key {
		case "profile":
			err = d.Decode(&name)
		case "allow":
			err = d.Decode(&allow)
		default:
			return "", nil, fmt.Errorf(`there is no key %q; there are "profile" and "allow"`, key)
		}
		if err != nil {
			return "", nil, fmt.Errorf("%q: %w", key, err)
		}
	}
	if _, err := d.Token(); err != nil {
		return "", nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return "", nil, errors.New("has something behind the JSON object")
	}
	switch {
	case name == "":
		return "", nil, errors.New(`"profile" is missing`)
	case len(allow) == 0:
		return "", nil, errors.New(`"allow" is missing or empty`)
	}
	return name, allow, nil
}
