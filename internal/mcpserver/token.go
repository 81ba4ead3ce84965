package mcpserver

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Tokens are the secrets that open a server over HTTP. Each is a principal of its own.
// Only their hashes are kept.
type Tokens struct{ hashes [][sha256.Size]byte }

// Bounds of tokens.
const (
	MinToken  = 32 // characters
	maxToken  = 512
	maxTokens = 100
)

// NewToken makes a token of 256 bits and more.
func NewToken() string { return rand.Text() + rand.Text() }

// Add takes a token: at least 32 characters of those that RFC 6750 has.
func (t *Tokens) Add(token string) error {
	const marks = "-._~+/="
	switch {
	case len(token) < MinToken:
		return fmt.Errorf("a token must have at least %d characters", MinToken)
	case len(token) > maxToken:
		return fmt.Errorf("a token must have at most %d characters", maxToken)
	case len(t.hashes) == maxTokens:
		return fmt.Errorf("there must be at most %d tokens", maxTokens)
	}
	for _, c := range []byte(token) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9') && !strings.Contains(marks, string(c)) {
			return errors.New("a token must be made of letters, digits and " + marks)
		}
	}
	if h := sha256.Sum256([]byte(token)); !slices.Contains(t.hashes, h) {
		t.hashes = append(t.hashes, h)
	}
	return nil
}

// ReadTokens reads a file with a token a line. It must be a plain file that only its
// owner may read or write, root or the user who runs the server.
func ReadTokens(name string) (*Tokens, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
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
		return nil, fmt.Errorf("%s: must be a plain file", name)
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return nil, fmt.Errorf("%s: must belong to root or to you", name)
	case st.Mode&0o077 != 0:
		return nil, fmt.Errorf("%s: others may read or write it; chmod 600 it", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxTokens*(maxToken+2)+1))
	if err != nil {
		return nil, err
	}
	t := &Tokens{}
	for n, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := t.Add(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n+1, err)
		}
	}
	if len(t.hashes) == 0 {
		return nil, fmt.Errorf("%s: has no token", name)
	}
	return t, nil
}

// find returns the principal of a token. It takes as long for one that is wrong as for
// one that is right, whichever it is.
func (t *Tokens) find(token string) (principal, bool) {
	h := sha256.Sum256([]byte(token))
	found := -1
	for i := range t.hashes {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(h[:], t.hashes[i][:]), i, found)
	}
	if found < 0 {
		return principal{}, false
	}
	return principalOf(t.hashes[found]), true
}

// principalOf names the principal of a token's hash. The name stays the same from one
// start to the next, and tells nothing of the token.
func principalOf(hash [sha256.Size]byte) principal {
	h := sha256.Sum256(append([]byte("glovebox mcp principal\x00"), hash[:]...))
	return principal{name: "token:" + hex.EncodeToString(h[:16])}
}
