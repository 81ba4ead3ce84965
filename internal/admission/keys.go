package admission

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// A key's id is a keyed hash of the key, and what is stored under it is another one: who
// has the store without the service's secret can neither make a key nor recognise one.

const (
	keyPurpose = "api key"
	keyVersion = 1
	keySize    = 1 + 32 + 8 + 8
	// issuedVersion and maxListed are of the list of keys that a client has made.
	issuedVersion = 1
	maxListed     = 1500
	issuedSize    = 16 + 8
)

// key is what is stored of one.
type key struct {
	id               string
	hash             string
	created, expires time.Time
}

func (k *key) encode() []byte {
	hash, _ := hex.DecodeString(k.hash) // our own
	b := append([]byte{keyVersion}, hash...)
	b = binary.LittleEndian.AppendUint64(b, uint64(k.created.UnixMilli()))
	return binary.LittleEndian.AppendUint64(b, uint64(k.expires.UnixMilli()))
}

func decodeKey(n name, b []byte) (*key, error) {
	if len(b) != keySize || b[0] != keyVersion {
		return nil, fmt.Errorf("%w: the key %x", queue.ErrDamaged, n)
	}
	return &key{"k" + hex.EncodeToString(n[:]), hex.EncodeToString(b[1:33]), millis(b[33:]), millis(b[41:])}, nil
}

// keyPlace is where a key is, by its id.
func keyPlace(id string) (at string, n name) {
	b, _ := hex.DecodeString(id[1:]) // has the form
	copy(n[:], b)
	return id[1 : 1+digits], n
}

func millis(b []byte) time.Time {
	return time.UnixMilli(int64(binary.LittleEndian.Uint64(b))).UTC()
}

// key reads one that lives. That it is not too old is looked at here, each time. The
// error is queue.ErrNotFound or another of the queue.
func (a *Admission) key(ctx context.Context, id string) (*key, error) {
	at, n := keyPlace(id)
	t, err := a.keys.read(ctx, at)
	if err != nil {
		return nil, err
	}
	data, ok := t.entries[n]
	if !ok {
		return nil, queue.ErrNotFound
	}
	k, err := decodeKey(n, data)
	if err == nil && !a.o.Now().Before(k.expires) {
		err = queue.ErrNotFound
	}
	return k, err
}

// store writes a key.
func (a *Admission) store(ctx context.Context, k *key) error {
	at, n := keyPlace(k.id)
	return a.keys.change(ctx, at, func(t *part) error {
		t.set(n, k.encode())
		return nil
	})
}

// drop takes a key out. The error is queue.ErrNotFound or another of the queue.
func (a *Admission) drop(ctx context.Context, id string) error {
	at, n := keyPlace(id)
	return a.keys.change(ctx, at, func(t *part) error {
		if _, ok := t.entries[n]; !ok {
			return queue.ErrNotFound
		}
		t.set(n, nil)
		return nil
	})
}

// CreateKey makes a key, which is in its answer and never again. It is counted to the
// address that asks, whatever key it shows; the operator's are not counted. The error
// is an *api.ServiceError.
func (a *Admission) CreateKey(ctx context.Context, c Client) (api.KeyInfo, error) {
	counted := a.o.Quotas && c.Kind != Operator
	if counted {
		if err := a.chargeKey(ctx, c); err != nil {
			return api.KeyInfo{}, err
		}
	}
	secret := credential.Key.New()
	now := a.o.Now().UTC().Truncate(time.Millisecond)
	k := &key{a.o.Secret.Derive(credential.KeyID, secret), a.o.Secret.Hash(keyPurpose, secret), now, now.Add(a.o.KeyTTL)}
	if err := a.store(ctx, k); err != nil {
		return api.KeyInfo{}, a.failed("a key cannot be stored", err)
	}
	if counted {
		if err := a.list(ctx, c, k); err != nil {
			_ = a.drop(context.WithoutCancel(ctx), k.id) // nobody has seen it
			return api.KeyInfo{}, err
		}
	}
	a.o.Log.Info("a key was made", "key", k.id, "client", c.ID)
	info := k.info()
	info.Key, info.WebhookSecret = secret, a.WebhookSecret(k.id)
	return info, nil
}

func (k *key) info() api.KeyInfo {
	return api.KeyInfo{ID: k.id, Created: k.created, Expires: k.expires, APIVersion: api.Version}
}

// WebhookSecret is what the webhooks of a key are signed with. It is never stored.
func (a *Admission) WebhookSecret(keyID string) string {
	return a.o.Secret.Derive(credential.Webhook, keyID)
}

// Key is what the holder of a key sees of it: never the key. The error is an
// *api.ServiceError: unauthorized if the client has none.
func (a *Admission) Key(ctx context.Context, c Client) (api.KeyInfo, error) {
	if c.Kind != KeyHolder {
		return api.KeyInfo{}, unauthorized("a key is needed")
	}
	k, err := a.key(ctx, c.KeyID)
	if errors.Is(err, queue.ErrNotFound) {
		return api.KeyInfo{}, unauthorized("the key was revoked or is too old")
	}
	if err != nil {
		return api.KeyInfo{}, a.failed("a key cannot be read", err)
	}
	info := k.info()
	info.Runs, _, err = a.Quotas(ctx, c)
	return info, err
}

// Revoke ends a key: the next request that shows it is refused. The error is an
// *api.ServiceError: bad_request if it is no key's id, not_found if there is none.
func (a *Admission) Revoke(ctx context.Context, keyID string) error {
	if err := credential.KeyID.Check(keyID); err != nil {
		return &api.ServiceError{Code: api.CodeBadRequest, Message: "the id of a key " + err.Error()}
	}
	err := a.drop(ctx, keyID)
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return &api.ServiceError{Code: api.CodeNotFound, Message: "there is no such key"}
	case err != nil:
		return a.failed("a key cannot be revoked", err)
	}
	a.o.Log.Info("a key was revoked", "key", keyID)
	return nil
}

// Keys are all keys that live, in no order, for the operator. An error is the last one.
func (a *Admission) Keys(ctx context.Context) iter.Seq2[api.KeyInfo, error] {
	return func(yield func(api.KeyInfo, error) bool) {
		for place, v := range a.keys.b.All(ctx) {
			if !strings.HasPrefix(place, a.keys.prefix) {
				continue // lists
			}
			for n, data := range unpack(v.Data) {
				k, err := decodeKey(n, data)
				if err != nil {
					yield(api.KeyInfo{}, a.failed("a key cannot be read", err))
					return
				}
				if a.o.Now().Before(k.expires) && !yield(k.info(), nil) {
					return
				}
			}
		}
		if err := context.Cause(ctx); err != nil {
			yield(api.KeyInfo{}, a.failed("not all keys were read", err))
		}
	}
}

// issued is a key in the list of those that a client has made.
type issued struct {
	name    name
	expires time.Time
}

// list writes a key into the lists of its client and its network, if they have room.
func (a *Admission) list(ctx context.Context, c Client, k *key) error {
	_, n := keyPlace(k.id)
	lists := map[string]int{c.Net: a.o.MaxKeysPerClient, c.Wide: a.o.MaxKeysPerClient * a.o.CoarseFactor}
	_, at := a.countersAt(c)
	err := a.issued.change(ctx, at, func(t *part) error {
		for token, most := range lists {
			had, err := decodeIssued(t.entries[counterName(token)])
			if err != nil {
				return err
			}
			had = a.living(had)
			if len(had) >= most {
				if had, err = a.unrevoked(ctx, had); err != nil {
					return err
				}
			}
			if len(had) >= most {
				return &api.ServiceError{Code: api.CodeQuota, RetryAfterMS: a.until(had[0].expires, a.o.KeyTTL),
					Message: fmt.Sprintf("a client may have %d keys: revoke one", most)}
			}
			t.set(counterName(token), encodeIssued(append(had, issued{n, k.expires})))
		}
		return nil
	})
	if refused, ok := errors.AsType[*api.ServiceError](err); ok {
		return refused
	}
	if err != nil {
		return a.failed("a list of keys", err)
	}
	return nil
}

// living leaves those that are not too old.
func (a *Admission) living(all []issued) []issued {
	return slices.DeleteFunc(all, func(i issued) bool { return !a.o.Now().Before(i.expires) })
}

// unrevoked leaves those that are there.
func (a *Admission) unrevoked(ctx context.Context, all []issued) ([]issued, error) {
	var failed error
	all = slices.DeleteFunc(all, func(i issued) bool {
		_, err := a.key(ctx, "k"+hex.EncodeToString(i.name[:]))
		if err != nil && !errors.Is(err, queue.ErrNotFound) {
			failed = err
		}
		return errors.Is(err, queue.ErrNotFound)
	})
	return all, failed
}

func encodeIssued(all []issued) []byte {
	b := []byte{issuedVersion}
	for _, i := range all {
		b = append(b, i.name[:]...)
		b = binary.LittleEndian.AppendUint64(b, uint64(i.expires.UnixMilli()))
	}
	return b
}

func decodeIssued(b []byte) ([]issued, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if b[0] != issuedVersion || (len(b)-1)%issuedSize != 0 {
		return nil, fmt.Errorf("%w: a list of keys", queue.ErrDamaged)
	}
	var all []issued
	for i := range slices.Chunk(b[1:], issuedSize) {
		all = append(all, issued{name(i[:16]), millis(i[16:])})
	}
	return all, nil
}
