package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// maxProfile bounds the file of --profile.
const maxProfile = 64 << 10

// readProfile reads additions to a profile: {"profile": NAME, "allow": [CALL…]}.
// The file must belong to root or this user and be writable by no other. Keys
// are exact and given once.
func readProfile(path string) (name string, allow []string, err error) {
	text, err := readTrusted(path, maxProfile)
	if err != nil {
		return "", nil, err
	}
	return parseProfile(text)
}

// readTrusted reads a file that belongs to root or this user and that no other
// may write to.
func readTrusted(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, errors.New("is not a regular file")
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return nil, fmt.Errorf("belongs to user %d; must belong to root or to you", st.Uid)
	case st.Mode&0o022 != 0:
		return nil, fmt.Errorf("may be written by others (mode %#o); chmod go-w it", st.Mode&0o777)
	case st.Size > most:
		return nil, fmt.Errorf("must have at most %s", size.format(most, " "))
	}
	return io.ReadAll(io.LimitReader(f, most))
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
