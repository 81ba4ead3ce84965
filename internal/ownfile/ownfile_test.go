package ownfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestJudge(t *testing.T) {
	const user = 1000
	stat := func(uid, gid, mode uint32) *unix.Stat_t {
		return &unix.Stat_t{Uid: uid, Gid: gid, Mode: mode, Size: 10}
	}
	for _, c := range []struct {
		name   string
		st     *unix.Stat_t
		secret bool
		want   string
	}{
		{"the user's", stat(user, user, unix.S_IFREG|0o644), false, ""},
		{"root's", stat(0, 0, unix.S_IFREG|0o444), false, ""},
		{"another's", stat(1001, user, unix.S_IFREG|0o600), false, "belongs to user 1001"},
		{"group may write", stat(user, user, unix.S_IFREG|0o664), false, "may be written by others (mode 0664)"},
		{"all may write", stat(0, 0, unix.S_IFREG|0o602), true, "may be written by others"},
		{"a folder", stat(0, 0, unix.S_IFDIR|0o700), false, "is not a regular file"},
		{"a pipe", stat(0, 0, unix.S_IFIFO|0o600), false, "is not a regular file"},
		{"a secret", stat(user, user, unix.S_IFREG|0o400), true, ""},
		{"a secret that the group may read", stat(user, user, unix.S_IFREG|0o640), true, "may be read by others (mode 0640)"},
		{"a secret that all may read", stat(0, 0, unix.S_IFREG|0o604), true, "may be read by others"},
		{"a credential of systemd", stat(0, 0, unix.S_IFREG|0o440), true, ""},
		{"root's, that a group may read", stat(0, 7, unix.S_IFREG|0o440), true, "may be read by others"},
		{"root's, that all may read", stat(0, 0, unix.S_IFREG|0o444), true, "may be read by others"},
	} {
		err := judge(c.st, user, Options{MaxBytes: 10, Secret: c.secret})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %q", c.name, err, c.want)
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := Read(path, Options{MaxBytes: 10, Secret: true}); err != nil || string(b) != "0123456789" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := Read(path, Options{MaxBytes: 9}); err == nil || err.Error() != "must have at most 9 B" {
		t.Errorf("a longer one: %v", err)
	}
	if err := unix.Mkfifo(path+"2", 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path+"2", Options{}); err == nil { // and does not wait for a writer
		t.Error("a pipe is read")
	}
}
