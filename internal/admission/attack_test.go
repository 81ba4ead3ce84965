package admission

import (
	"testing"

	"github.com/glovebox-dev/glovebox/internal/credential"
)

// Many keys of one address are not all waits and streams: others get some.
//
// proves part of H-46
func TestAttackSharesOfKeys(t *testing.T) {
	a := open(t, Options{MaxWaits: 20, WaitsPerClient: 4, MaxSockets: 40, SocketsPerClient: 10, SocketsPerRun: 40})
	one, other := identify(t, a, "192.0.2.1:1"), identify(t, a, "192.0.2.2:1")
	var keys []Client
	for range 20 {
		k := one
		k.Kind, k.KeyID = KeyHolder, credential.KeyID.New()
		k.ID = "key-" + k.KeyID
		keys = append(keys, k)
	}
	waits, streams := 0, 0
	var all []func()
	for i := range 200 {
		if release, err := a.Wait(keys[i%20]); err == nil {
			waits++
			all = append(all, release)
		}
		if release, err := a.Stream(keys[i%20], "run"); err == nil {
			streams++
			all = append(all, release)
		}
	}
	if waits != 15 || streams != 30 {
		t.Errorf("the keys of one address have %d of 20 waits and %d of 40 streams", waits, streams)
	}
	for _, take := range []func() (func(), error){
		func() (func(), error) { return a.Wait(other) },
		func() (func(), error) { return a.Stream(other, "run") },
		func() (func(), error) { return a.Stream(Client{ID: operatorID, Kind: Operator, Net: one.Net}, "run") },
	} {
		release, err := take()
		if err != nil {
			t.Error(err)
			continue
		}
		all = append(all, release)
	}
	for _, release := range all {
		release()
	}
	if n := len(a.shares.clients); n != 0 {
		t.Errorf("%d are held of nobody", n)
	}
}

// Many keys of one address do not use up what all may be sent.
//
// proves part of H-46
func TestAttackEgressOfKeys(t *testing.T) {
	a := open(t, Options{Quotas: true, KeyEgressPerHour: 100, EgressPerHour: 100, EgressInAll: 1000})
	one, other := identify(t, a, "192.0.2.1:1"), identify(t, a, "192.0.2.2:1")
	sent := 0
	for range 20 {
		k := one
		k.Kind, k.KeyID = KeyHolder, credential.KeyID.New()
		k.ID = "key-" + k.KeyID
		for range 10 {
			if a.Egress(k, 10) == nil {
				sent += 10
			}
		}
	}
	if sent != 750 {
		t.Errorf("the keys of one address were sent %d of 1000 bytes", sent)
	}
	if err := a.Egress(other, 100); err != nil {
		t.Error(err)
	}
}
