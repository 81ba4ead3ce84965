// Package keyring derives keys for one purpose and one owner each from root keys
// that can be exchanged: what was made under an older key is read until that key
// is taken out.
package keyring

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
)

// Size is the length of a derived key, in bytes.
const Size = 32

// MaxOwner is the length of what names an owner, in bytes.
const MaxOwner = 4096

// Ring is a set of root keys with ids. It never changes and is safe for
// concurrent use. It is never printed.
type Ring struct {
	current string
	roots   map[string][]byte
}

var idForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,31}$`)

// New makes a ring of root keys, by their ids. New things are made under the one
// called current, the others are for reading. A root has at least 32 bytes of a
// good random source. The error names no key.
func New(current string, roots map[string][]byte) (*Ring, error) {
	if roots[current] == nil {
		return nil, fmt.Errorf("keyring: the current key %q is not among the keys", current)
	}
	r := &Ring{current, map[string][]byte{}}
	for id, root := range roots {
		if !idForm.MatchString(id) {
			return nil, fmt.Errorf("keyring: an id must be of 1 to 32 small letters, digits, dots, hyphens and underscores, not %q", id)
		}
		if len(root) < Size {
			return nil, fmt.Errorf("keyring: the key %s must have at least %d bytes", id, Size)
		}
		r.roots[id] = append([]byte(nil), root...)
	}
	return r, nil
}

// Current is the id of the key under which new things are made.
func (r *Ring) Current() string { return r.current }

// Has reports whether the ring has a key.
func (r *Ring) Has(id string) bool { return r.roots[id] != nil }

// Derive returns the key of an id for a purpose ("journal mac") and an owner.
// Two purposes or owners never have the same.
func (r *Ring) Derive(id, purpose string, owner []byte) ([]byte, error) {
	root := r.roots[id]
	if root == nil {
		return nil, fmt.Errorf("keyring: there is no key %q", cut(id))
	}
	if len(owner) > MaxOwner {
		return nil, fmt.Errorf("keyring: an owner of %d bytes, more than %d", len(owner), MaxOwner)
	}
	info := binary.AppendUvarint([]byte("glovebox 1\x00"), uint64(len(purpose)))
	info = binary.AppendUvarint(append(info, purpose...), uint64(len(owner)))
	return hkdf.Key(sha256.New, root, nil, string(append(info, owner...)), Size)
}

func cut(id string) string { return id[:min(len(id), 32)] }

// String hides the keys.
func (r *Ring) String() string { return "keyring" }

// GoString hides the keys.
func (r *Ring) GoString() string { return "keyring" }
