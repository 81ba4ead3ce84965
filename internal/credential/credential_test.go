package credential_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/credential"
)

// proves part of X-08
func TestForms(t *testing.T) {
	for _, k := range []credential.Kind{credential.Run, credential.KeyID, credential.Owner, credential.Key, credential.Webhook, credential.Operator} {
		good := k.New()
		if !k.Is(good) || k.Check(good) != nil || good == k.New() {
			t.Fatalf("%q is not of its own kind, or not new", good)
		}
		for _, bad := range []string{"", good[1:], good + "0", " " + good, good + "\n", strings.ToUpper(good), good[:len(good)-1] + "g",
			good[:len(good)-1] + "*", good[:len(good)-1] + ".", good[:len(good)-2] + "é", strings.Repeat("0", len(good)+1)} {
			if k.Is(bad) || k.Check(bad) == nil {
				t.Errorf("%q passes as %q", bad, good)
			}
			if err := k.Check(bad); bad != "" && strings.Contains(err.Error(), bad) {
				t.Errorf("what was refused is in the sentence: %v", err)
			}
		}
	}
	if credential.Owner.Is(credential.Key.New()) || credential.Key.Is(credential.Owner.New()) {
		t.Error("one kind passes as another")
	}
}

func TestDerive(t *testing.T) {
	s, other := credential.NewSecret(), credential.NewSecret()
	id := credential.Run.New()
	token := s.Derive(credential.Owner, id)
	if !credential.Owner.Is(token) || token != s.Derive(credential.Owner, id) {
		t.Errorf("%q is no owner's token, or another each time", token)
	}
	if !s.Owns(token, credential.Owner, id) {
		t.Error("the token does not own its run")
	}
	for name, owns := range map[string]bool{
		"another run":    s.Owns(token, credential.Owner, credential.Run.New()),
		"another secret": other.Owns(token, credential.Owner, id),
		"another kind":   s.Owns(token, credential.Key, id),
		"a part":         s.Owns(token[:20], credential.Owner, id),
		"nothing":        s.Owns("", credential.Owner, id),
	} {
		if owns {
			t.Errorf("%s is owned", name)
		}
	}
	if s.Hash("a", "bc") == s.Hash("ab", "c") || s.Hash("a", "b", "c") == s.Hash("a", "bc") || s.Hash("a", "b") == other.Hash("a", "b") {
		t.Error("parts run into each other, or the hash has no key")
	}
	if text := fmt.Sprintf("%v %+v %#v %s", s, s, s, s); text != "secret secret secret secret" {
		t.Errorf("printed: %s", text)
	}
}

func TestLoadSecret(t *testing.T) {
	dir := t.TempDir()
	got := make([]string, 20)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			s, err := credential.LoadSecret(dir)
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = s.Hash("x")
		})
	}
	wg.Wait()
	for _, h := range got {
		if h == "" || h != got[0] {
			t.Fatal("two that load at once have two secrets")
		}
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
	path := filepath.Join(dir, "secret")
	for name, spoil := range map[string]func(){
		"readable": func() { _ = os.Chmod(path, 0o640) },
		"short":    func() { _ = os.Chmod(path, 0o600); _ = os.Truncate(path, 31) },
		"long":     func() { _ = os.WriteFile(path, make([]byte, 33), 0o600) },
		"a link":   func() { _ = os.Rename(path, path+"2"); _ = os.Truncate(path+"2", 32); _ = os.Symlink(path+"2", path) },
	} {
		t.Run(name, func(t *testing.T) {
			spoil()
			if _, err := credential.LoadSecret(dir); err == nil || !strings.Contains(err.Error(), "secret") {
				t.Errorf("%v", err)
			}
			_ = os.Remove(path)
			if _, err := credential.LoadSecret(dir); err != nil {
				t.Errorf("control: %v", err)
			}
		})
	}
}
