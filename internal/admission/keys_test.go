package admission

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// A key that is too old is none, although the store still has it.
//
// proves part of X-10
func TestKeyAge(t *testing.T) {
	var shift atomic.Int64
	a := open(t, Options{KeyTTL: time.Hour, Now: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }})
	ctx := t.Context()
	made, err := a.CreateKey(ctx, identify(t, a, "192.0.2.1:1"))
	must(t, err)
	shows := func() api.Code {
		_, err := a.Identify(request("192.0.2.1:1", "Authorization", "Bearer "+made.Key))
		return code(t, err)
	}
	holder := identify(t, a, "192.0.2.1:1", "Authorization", "Bearer "+made.Key)
	listed := func() (n int) {
		for info, err := range a.Keys(ctx) {
			must(t, err)
			if n++; info.ID != made.ID || info.Key != "" || info.WebhookSecret != "" || !info.Expires.Equal(made.Expires) {
				t.Errorf("%+v", info)
			}
		}
		return n
	}
	for _, c := range []struct {
		shift time.Duration
		lives bool
	}{{0, true}, {59 * time.Minute, true}, {time.Hour, false}, {24 * time.Hour, false}, {-time.Hour, true}, {0, true}} {
		shift.Store(int64(c.shift))
		want, n := api.Code(""), 1
		if !c.lives {
			want, n = api.CodeUnauthorized, 0
		}
		if got := shows(); got != want {
			t.Errorf("after %v: %q", c.shift, got)
		}
		if _, err := a.Key(ctx, holder); code(t, err) != want {
			t.Errorf("after %v: %v", c.shift, err)
		}
		if got := listed(); got != n {
			t.Errorf("after %v: %d are listed", c.shift, got)
		}
		at, place := keyPlace(made.ID)
		if p, err := a.keys.read(ctx, at); err != nil || p.entries[place] == nil {
			t.Error("the store has dropped it, so that nothing is proved:", err)
		}
	}
	if _, err := a.Key(ctx, identify(t, a, "192.0.2.1:1")); code(t, err) != api.CodeUnauthorized {
		t.Error(err)
	}
}

// proves part of X-08 X-18
func TestRevoke(t *testing.T) {
	a := open(t, Options{})
	ctx := t.Context()
	c := identify(t, a, "192.0.2.1:1")
	one, err := a.CreateKey(ctx, c)
	must(t, err)
	two, err := a.CreateKey(ctx, c)
	must(t, err)
	for _, id := range []string{"", "k", one.Key, "of-" + c.Net, strings.ToUpper(one.ID), one.ID + "0", one.ID + "*", "*", ">", "k*", "k.", "../" + one.ID, one.ID[:32] + "\n"} {
		if err := a.Revoke(ctx, id); code(t, err) != api.CodeBadRequest {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := a.Revoke(ctx, credential.KeyID.New()); code(t, err) != api.CodeNotFound {
		t.Error(err)
	}
	identify(t, a, "192.0.2.1:1", "Authorization", "Bearer "+one.Key) // the control
	must(t, a.Revoke(ctx, one.ID))
	if _, err := a.Identify(request("192.0.2.1:1", "Authorization", "Bearer "+one.Key)); code(t, err) != api.CodeUnauthorized {
		t.Error(err)
	}
	identify(t, a, "192.0.2.1:1", "Authorization", "Bearer "+two.Key)
	if err := a.Revoke(ctx, one.ID); code(t, err) != api.CodeNotFound {
		t.Error(err)
	}
}

// The issue of keys is counted to the address, whatever it shows, and to its network; and
// nobody has more living keys than he may.
//
// proves part of X-18 H-75
func TestKeyIssue(t *testing.T) {
	inOneHour()
	a := open(t, Options{Quotas: true, MaxKeysPerClient: 3, CoarseFactor: 2, OperatorToken: credential.Operator.New()})
	ctx := t.Context()
	at := func(a *Admission, addr string, headers ...string) (api.KeyInfo, api.Code) {
		info, err := a.CreateKey(ctx, identify(t, a, addr, headers...))
		return info, code(t, err)
	}
	first, refused := at(a, "192.0.2.1:1")
	for range 2 {
		if refused != "" {
			t.Fatal(refused)
		}
		// A key makes no keys of its own.
		_, refused = at(a, "192.0.2.1:1", "Authorization", "Bearer "+first.Key)
	}
	if _, refused := at(a, "192.0.2.1:1"); refused != api.CodeQuota {
		t.Error("a fourth:", refused)
	}
	must(t, a.Revoke(ctx, first.ID))
	if _, refused := at(a, "192.0.2.1:1"); refused != "" {
		t.Error("after one was revoked:", refused)
	}
	if _, refused := at(a, "192.0.2.1:1"); refused != api.CodeQuota {
		t.Error("a sixth in an hour:", refused)
	}
	for i := range 3 {
		if _, refused := at(a, "192.0.2.2:1"); refused != "" {
			t.Error(i, "of another address:", refused)
		}
	}
	if _, refused := at(a, "192.0.2.3:1"); refused != api.CodeQuota {
		t.Error("of a network that has six:", refused)
	}
	if _, refused := at(a, "192.0.3.3:1"); refused != "" {
		t.Error("control: of another network:", refused)
	}
	for range 10 {
		if _, refused := at(a, "192.0.2.3:1", "Authorization", "Bearer "+a.o.OperatorToken); refused != "" {
			t.Error("the operator:", refused)
		}
	}
	n := 0
	for _, err := range a.Keys(ctx) {
		must(t, err)
		n++
	}
	if n != 3+3+1+10 {
		t.Error(n, "keys")
	}
	off := open(t, Options{MaxKeysPerClient: 1})
	for range 10 {
		if _, refused := at(off, "192.0.2.1:1"); refused != "" {
			t.Error("control: without quotas:", refused)
		}
	}
}

// However many ask at once, from three machines, the list holds.
//
// proves part of H-75 H-76
func TestKeyIssueParallel(t *testing.T) {
	inOneHour()
	all := machines(t, 3, Options{Quotas: true, KeysPerHour: 100, MaxKeysPerClient: 4, CoarseFactor: 15})
	c := identify(t, all[0], "192.0.2.1:1")
	var made atomic.Int32
	var work sync.WaitGroup
	for i := range 30 {
		work.Go(func() {
			_, err := all[i%3].CreateKey(t.Context(), c)
			switch refused := code(t, err); refused {
			case "":
				made.Add(1)
			case api.CodeQuota, api.CodeBusy:
			default:
				t.Error(err)
			}
		})
	}
	work.Wait()
	living := 0
	for _, err := range all[1].Keys(t.Context()) {
		must(t, err)
		living++
	}
	if made.Load() != 4 || living != 4 {
		t.Errorf("%d were made, %d live", made.Load(), living)
	}
}

// Neither keys nor tokens are in the store or the log: what is stored is a hash that
// nobody can make without the service's secret.
//
// proves part of H-74
func TestKeysAtRest(t *testing.T) {
	dir := t.TempDir() + "/queue"
	var log bytes.Buffer
	operator := credential.Operator.New()
	a := open(t, Options{Queue: newQueue(t, queue.Options{Dir: dir}), Quotas: true, OperatorToken: operator, Log: textLog(&log)})
	c := identify(t, a, "192.0.2.1:1")
	made, err := a.CreateKey(t.Context(), c)
	must(t, err)
	key := identify(t, a, "192.0.2.1:1", "Authorization", "Bearer "+made.Key)
	runs(t, a, key, 3)
	_, err = a.Identify(request("192.0.2.1:1", "Authorization", "Bearer "+operator))
	must(t, err)
	must(t, a.Lost(t.Context(), key.ID, "aa"))
	// The control: the id of the key is found.
	raw := func(hexes string) string { b, _ := hex.DecodeString(hexes); return string(b) }
	id := raw(made.ID[1:])
	counts := map[string]int{made.Key: 0, made.Key[4:]: 0, raw(made.Key[4:]): 0, made.WebhookSecret: 0, made.WebhookSecret[4:]: 0, raw(made.WebhookSecret[4:]): 0,
		operator: 0, operator[4:]: 0, "192.0.2.1": 0, "\xc0\x00\x02\x01": 0, id: 0}
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		for s := range counts {
			counts[s] += bytes.Count(b, []byte(s))
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}))
	for s, n := range counts {
		if strings.Contains(log.String(), s) || (n > 0) != (s == id) {
			t.Errorf("%.8q…: %d times in the store, or in the log", s, n)
		}
	}
	if !strings.Contains(log.String(), made.ID) {
		t.Error("the log says nothing")
	}
	// Another secret makes other hashes: who has the store alone knows no key.
	thief := open(t, Options{Queue: a.o.Queue})
	if _, err := thief.Identify(request("192.0.2.1:1", "Authorization", "Bearer "+made.Key)); code(t, err) != api.CodeUnauthorized {
		t.Error(err)
	}
	// Nor does it help to write a key's hash under another key's id.
	k, err := a.key(t.Context(), made.ID)
	must(t, err)
	stolen := credential.Key.New()
	k.id = a.o.Secret.Derive(credential.KeyID, stolen)
	must(t, a.store(t.Context(), k))
	if _, err := a.Identify(request("192.0.2.1:1", "Authorization", "Bearer "+stolen)); code(t, err) != api.CodeUnauthorized {
		t.Error(err)
	}
}

// What the store has that is not as it must be is an error, and lets nobody in.
//
// proves part of X-08
func TestDamaged(t *testing.T) {
	a := open(t, Options{Quotas: true})
	ctx := t.Context()
	c := identify(t, a, "192.0.2.1:1")
	k := credential.Key.New()
	id := a.o.Secret.Derive(credential.KeyID, k)
	at, n := keyPlace(id)
	entry := func(size int, version byte) []byte {
		b := append([]byte{packedVersion}, n[:]...)
		b = binary.LittleEndian.AppendUint32(b, uint32(size))
		return append(b, bytes.Repeat([]byte{version}, size)...)
	}
	for i, data := range [][]byte{nil, {2}, {1, 3}, entry(0, 0), entry(keySize-1, 1), entry(keySize, 2), entry(keySize+1, 1), entry(keySize, 1)[:keySize+5], append(entry(keySize, 1), 0)} {
		_, err := a.keys.b.Create(ctx, "k"+at, data, 0)
		must(t, err)
		if _, err := a.Identify(request("192.0.2.1:1", "Authorization", "Bearer "+k)); code(t, err) != api.CodeInternal {
			t.Errorf("%d: %v", i, err)
		}
		errs := 0
		for _, err := range a.Keys(ctx) {
			if err != nil {
				errs++
			}
		}
		if errs != 1 {
			t.Errorf("%d: %d errors in the list", i, errs)
		}
		must(t, a.keys.b.Delete(ctx, "k"+at, 0))
	}
	_, at = a.countersAt(c)
	must(t, a.issued.change(ctx, at, func(t *part) error { t.set(counterName(c.Net), []byte("xx")); return nil }))
	if _, err := a.CreateKey(ctx, c); code(t, err) != api.CodeInternal {
		t.Error(err)
	}
	for _, err := range a.Keys(ctx) {
		t.Error("a key of which nobody knows is left:", err)
	}
	other := identify(t, a, "198.51.100.1:1")
	_, at = a.countersAt(other)
	must(t, a.quotas.change(ctx, at, func(t *part) error { t.set(counterName("r-"+other.ID), []byte("xx")); return nil }))
	if _, err := a.Admit(ctx, other, Request{ID: credential.Run.New()}); code(t, err) != api.CodeInternal {
		t.Error(err)
	}
	_, err := a.slow.Create(ctx, a.slowKey(c.ID, "bad"), []byte("xx"), 0)
	must(t, err)
	if _, err := a.Admit(ctx, c, Request{ID: credential.Run.New(), SourceHash: "bad"}); code(t, err) != api.CodeInternal {
		t.Error(err)
	}
}

// Neither a client nor a run that the service has not named itself gets in.
//
// proves part of X-08
func TestNamesOfAdmit(t *testing.T) {
	a := open(t, Options{Quotas: true})
	ctx := t.Context()
	c := identify(t, a, "192.0.2.1:1")
	if _, err := a.Admit(ctx, Client{}, Request{ID: credential.Run.New()}); code(t, err) != api.CodeInternal {
		t.Error("nobody is let in:", err)
	}
	for _, id := range []string{"", "x", "*", ">", strings.Repeat("a", 32) + "\n", strings.ToUpper(credential.Run.New()[:31]) + "A"} {
		if _, err := a.Admit(ctx, c, Request{ID: id}); code(t, err) != api.CodeInternal {
			t.Errorf("%q: %v", id, err)
		}
	}
	p, _, refused := admit(t, a, c) // the control
	if refused != "" {
		t.Fatal(refused)
	}
	p.Refuse(ctx)
}

// A store that does not answer lets nobody in.
func TestClosedStore(t *testing.T) {
	q, err := queue.Open(t.Context(), queue.Options{Dir: t.TempDir() + "/queue", MinFree: 1})
	must(t, err)
	a := open(t, Options{Queue: q, Quotas: true})
	c := identify(t, a, "192.0.2.1:1")
	must(t, q.Close())
	_, err = a.Identify(request("192.0.2.1:1", "Authorization", "Bearer "+credential.Key.New()))
	if code(t, err) != api.CodeInternal {
		t.Error(err)
	}
	if _, err = a.Admit(t.Context(), c, Request{ID: credential.Run.New()}); code(t, err) != api.CodeInternal {
		t.Error(err)
	}
	if _, err = a.CreateKey(t.Context(), c); code(t, err) != api.CodeInternal {
		t.Error(err)
	}
	if strings.Contains(fmt.Sprint(err), "nats") {
		t.Error("the answer tells of the store:", err)
	}
	if h := a.Held(); h != (Held{}) {
		t.Errorf("%+v", h)
	}
}
