package admission

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
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
	keySize    = 1 + 64 + 8 + 8
	// issuedVersion and maxListed are of the list of keys that a client has made.
	issuedVersion = 1
	maxListed     = 1500
	issuedSize    = 33 + 8
	keyTries      = 16
)

// key is what is stored of one.
type key struct {
	id               string
	hash             string
	created, expires time.Time
}

func (k *key) encode() []byte {
	b := append([]byte{keyVersion}, k.hash...)
	b = binary.LittleEndian.AppendUint64(b, uint64(k.created.UnixMilli()))
	return binary.LittleEndian.AppendUint64(b, uint64(k.expires.UnixMilli()))
}

func decodeKey(id string, b []byte) (*key, error) {
	if len(b) != keySize || b[0] != keyVersion {
		return nil, fmt.Errorf("%w: the key %s", queue.ErrDamaged, id)
	}
	return &key{id, string(b[1:65]), millis(b[65:]), millis(b[73:])}, nil
}

func millis(b []byte) time.Time {
	return time.UnixMilli(int64(binary.LittleEndian.Uint64(b))).UTC()
}

// key reads one that lives. That it is not too old is looked at here, each time. The
// error is queue.ErrNotFound or another of the queue.
func (a *Admission) key(ctx context.Context, id string) (*key, error) {
	v, err := a.keys.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	k, err := decodeKey(id, v.Data)
	if err == nil && !a.o.Now().Before(k.expires) {
		err = queue.ErrNotFound
	}
	return k, err
}

// CreateKey makes a key, which is in its answer and never again. It is counted to the
// address that asks, whatever key it shows; the operator's are not counted. The error
// is an *api.ServiceError.
func (a *Admission) CreateKey(ctx context.Context, c Client) (api.KeyInfo, error) {
	counted := a.o.Quotas && c.Kind != Operator
	charge := credential.Run.New()
	if counted {
		if c.Net == "" || c.Wide == "" {
			return api.KeyInfo{}, a.failed("a key was asked for by a client without an address", nil)
		}
		if err := a.chargeBoth(ctx, a.quotas, "k-", c, charge, a.o.KeysPerHour, "keys"); err != nil {
			return api.KeyInfo{}, err
		}
	}
	secret := credential.Key.New()
	now := a.o.Now().UTC().Truncate(time.Millisecond)
	k := &key{a.o.Secret.Derive(credential.KeyID, secret), a.o.Secret.Hash(keyPurpose, secret), now, now.Add(a.o.KeyTTL)}
	if _, err := a.keys.Create(ctx, k.id, k.encode(), a.o.KeyTTL); err != nil {
		return api.KeyInfo{}, a.failed("a key cannot be stored", err)
	}
	if counted {
		if err := a.list(ctx, c, k); err != nil {
			_ = a.keys.Delete(context.WithoutCancel(ctx), k.id, 0) // nobody has seen it
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
	err := a.keys.Delete(ctx, keyID, 0)
	switch {
	case errors.Is(err, queue.ErrNotFound), errors.Is(err, queue.ErrConflict):
		return &api.ServiceError{Code: api.CodeNotFound, Message: "there is no such key"}
	case err != nil:
		return a.failed("a key cannot be revoked", err)
	}
	a.o.Log.Info("a key was revoked", "key", keyID)
	return nil
}

// Keys are all keys that live, in the order in which they were made, for the operator.
// An error is the last one.
func (a *Admission) Keys(ctx context.Context) iter.Seq2[api.KeyInfo, error] {
	return func(yield func(api.KeyInfo, error) bool) {
		for id, v := range a.keys.All(ctx) {
			if !credential.KeyID.Is(id) {
				continue // a list
			}
			k, err := decodeKey(id, v.Data)
			if err != nil {
				yield(api.KeyInfo{}, a.failed("a key cannot be read", err))
				return
			}
			if a.o.Now().Before(k.expires) && !yield(k.info(), nil) {
				return
			}
		}
		if err := context.Cause(ctx); err != nil {
			yield(api.KeyInfo{}, a.failed("not all keys were read", err))
		}
	}
}

// list writes a key into the lists of its client and its network, if they have room.
func (a *Admission) list(ctx context.Context, c Client, k *key) error {
	for _, l := range []struct {
		name string
		most int
	}{{"of-" + c.Wide, a.o.MaxKeysPerClient * a.o.CoarseFactor}, {"of-" + c.Net, a.o.MaxKeysPerClient}} {
		if err := a.listIn(ctx, l.name, l.most, k); err != nil {
			return err
		}
	}
	return nil
}

type issued struct {
	id      string
	expires time.Time
}

func (a *Admission) listIn(ctx context.Context, name string, most int, k *key) error {
	for range keyTries {
		v, err := a.keys.Get(ctx, name)
		if err != nil && !errors.Is(err, queue.ErrNotFound) {
			return a.failed("a list of keys cannot be read", err)
		}
		had, err := decodeIssued(v.Data)
		if err != nil {
			return a.failed("a list of keys cannot be read", err)
		}
		had = slices.DeleteFunc(had, func(i issued) bool { return !a.o.Now().Before(i.expires) })
		if len(had) >= most {
			had = slices.DeleteFunc(had, func(i issued) bool { // were some revoked?
				_, err := a.keys.Get(ctx, i.id)
				return errors.Is(err, queue.ErrNotFound)
			})
		}
		if len(had) >= most {
			return &api.ServiceError{Code: api.CodeQuota, RetryAfterMS: a.until(had[0].expires, a.o.KeyTTL),
				Message: fmt.Sprintf("a client may have %d keys: revoke one", most)}
		}
		data := encodeIssued(append(had, issued{k.id, k.expires}))
		if v.Revision == 0 {
			_, err = a.keys.Create(ctx, name, data, 0)
		} else {
			_, err = a.keys.Update(ctx, name, data, v.Revision, 0)
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, queue.ErrConflict) && !errors.Is(err, queue.ErrExists) {
			return a.failed("a list of keys cannot be written", err)
		}
	}
	return a.failed("a list of keys cannot be written", queue.ErrContended)
}

func encodeIssued(all []issued) []byte {
	b := []byte{issuedVersion}
	for _, i := range all {
		b = append(b, i.id...)
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
		all = append(all, issued{string(i[:33]), millis(i[33:])})
	}
	return all, nil
}
