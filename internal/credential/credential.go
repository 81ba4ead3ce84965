// Package credential makes and checks the ids, tokens and keys of a service. Each
// kind has one exact form, and whatever comes from outside has it or is none. Of
// what opens something a service keeps a keyed hash, or nothing at all, since it can
// make it again from the id that it belongs to.
package credential

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Kind is what an id or secret is for.
type Kind struct {
	name   string
	prefix string
	bytes  int
}

// The kinds. Ids name something and have 128 bits; secrets open something and have
// 256. All are of letters, digits and underscores.
var (
	Run      = Kind{"run", "", 16}             // an id that reads one run
	KeyID    = Kind{"key id", "k", 16}         // the public name of a key
	Owner    = Kind{"owner token", "gbo_", 32} // controls one run
	Key      = Kind{"key", "gbk_", 32}         // an API key
	Webhook  = Kind{"webhook secret", "gbw_", 32}
	Operator = Kind{"operator's token", "gbp_", 32}
)

// New makes one from the kernel's randomness.
func (k Kind) New() string {
	b := make([]byte, k.bytes)
	_, _ = rand.Read(b) // never fails
	return k.prefix + hex.EncodeToString(b)
}

// Is tells whether a text has the kind's exact form.
func (k Kind) Is(s string) bool {
	rest, ok := strings.CutPrefix(s, k.prefix)
	return ok && len(rest) == 2*k.bytes && strings.Trim(rest, "0123456789abcdef") == ""
}

// Check is an error unless a text has the kind's exact form. The text is not in it.
func (k Kind) Check(s string) error {
	if !k.Is(s) {
		return fmt.Errorf("is not the form of a %s: %q and %d of 0-9 a-f", k.name, k.prefix, 2*k.bytes)
	}
	return nil
}

// Secret is a service's own: everything that is hashed or derived is so under it.
// Whoever has it can forge every token, and whoever loses it closes them all.
type Secret struct{ key [32]byte }

// NewSecret makes a secret that lasts as long as the program.
func NewSecret() *Secret {
	s := new(Secret)
	_, _ = rand.Read(s.key[:])
	return s
}

// String keeps the secret out of logs.
func (*Secret) String() string { return "secret" }

// GoString keeps the secret out of logs.
func (*Secret) GoString() string { return "secret" }

// LoadSecret reads the file "secret" of a folder that belongs to the service alone,
// or makes it there, mode 0600. Two processes that make it at once get the same one.
func LoadSecret(dir string) (*Secret, error) {
	path := filepath.Join(dir, "secret")
	s, err := read(path)
	if !os.IsNotExist(err) {
		return s, err
	}
	made := NewSecret()
	tmp, err := os.CreateTemp(dir, "secret-*") // mode 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(tmp.Name())
	if _, err = tmp.Write(made.key[:]); err == nil {
		err = tmp.Sync()
	}
	if closing := tmp.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !os.IsExist(err) {
		return nil, err
	}
	return read(path)
}

func read(path string) (*Secret, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o077 != 0 || int(st.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s: must be a plain file of this user that nobody else may read (chmod 600)", path)
	}
	s := new(Secret)
	if _, err := io.ReadFull(f, s.key[:]); err != nil {
		return nil, fmt.Errorf("%s: is not a secret: %w", path, err)
	}
	if n, _ := f.Read(make([]byte, 1)); n != 0 {
		return nil, fmt.Errorf("%s: is not a secret: it is longer than 32 bytes", path)
	}
	return s, nil
}

// sum is HMAC-SHA256 over a purpose and parts, none of which can run into the next.
func (s *Secret) sum(purpose string, parts ...string) []byte {
	h := hmac.New(sha256.New, s.key[:])
	for _, p := range append([]string{purpose}, parts...) {
		fmt.Fprintf(h, "%d:%s,", len(p), p)
	}
	return h.Sum(nil)
}

// Hash is the keyed hash by which something is known in the store: 64 of 0-9 a-f,
// different for each purpose.
func (s *Secret) Hash(purpose string, parts ...string) string {
	return hex.EncodeToString(s.sum("hash "+purpose, parts...))
}

// Derive makes the id or secret of a kind that belongs to what parts name, always
// the same one. That it is never stored is why nobody can find it in the store.
func (s *Secret) Derive(k Kind, parts ...string) string {
	return k.prefix + hex.EncodeToString(s.sum("derive "+k.name, parts...)[:k.bytes])
}

// Owns tells, in constant time, whether a token is the one that Derive makes of k
// and parts.
func (s *Secret) Owns(token string, k Kind, parts ...string) bool {
	return Equal(token, s.Derive(k, parts...))
}

// Equal compares two texts in a time that depends on neither, nor on their lengths.
func Equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return hmac.Equal(x[:], y[:])
}
