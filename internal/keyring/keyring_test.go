package keyring

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestDerive: each id, purpose and owner has a key of its own, also where their
// texts would run together, and the same one each time.
//
// proves part of H-63
func TestDerive(t *testing.T) {
	root := bytes.Repeat([]byte{1}, 32)
	r, err := New("b", map[string][]byte{"a": bytes.Repeat([]byte{2}, 32), "b": root})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, id := range []string{"a", "b"} {
		for _, purpose := range []string{"", "x", "xy", "journal records", "journal head"} {
			for _, owner := range []string{"", "y", "z", "yz", "zy", "x\x01y", strings.Repeat("o", MaxOwner)} {
				k, err := r.Derive(id, purpose, []byte(owner))
				if err != nil || len(k) != Size {
					t.Fatal(err)
				}
				what := fmt.Sprintf("%q %q %.20q", id, purpose, owner)
				if other := seen[string(k)]; other != "" {
					t.Errorf("%s and %s have one key", other, what)
				}
				seen[string(k)] = what
				if again, _ := r.Derive(id, purpose, []byte(owner)); !bytes.Equal(again, k) {
					t.Errorf("%s has two keys", what)
				}
			}
		}
	}
	clear(root) // the ring has its own copy
	if k, _ := r.Derive("b", "x", nil); seen[string(k)] == "" {
		t.Error("the ring changed with the caller's bytes")
	}
	if r.Current() != "b" || !r.Has("a") || r.Has("c") {
		t.Errorf("%v", r)
	}
	if _, err := r.Derive("c", "x", nil); err == nil {
		t.Error("a key that is not there")
	}
	if _, err := r.Derive("a", "x", make([]byte, MaxOwner+1)); err == nil {
		t.Error("an owner that is too long")
	}
	if text := fmt.Sprintf("%v %+v %#v %s", r, r, r, r); text != "keyring keyring keyring keyring" {
		t.Errorf("printed: %s", text)
	}
}

func TestNew(t *testing.T) {
	long := make([]byte, 32)
	for name, roots := range map[string]map[string][]byte{"no current": {"b": long}, "short": {"a": long[:31]}, "id": {"a": long, "B": long}, "empty id": {"a": long, "": long}, "line": {"a": long, "b\n": long}} {
		if _, err := New("a", roots); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}
