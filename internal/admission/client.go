package admission

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"regexp"
	"strings"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// Kind is how a client is known.
type Kind string

// The kinds of clients.
const (
	Anonymous Kind = "anonymous" // by its address
	KeyHolder Kind = "key"
	Operator  Kind = "operator" // by the operator's token: no quota is for it
)

const operatorID = "operator"

var netForm = regexp.MustCompile(`^net-[0-9a-f]{32}$`)

// Client is who asks.
type Client struct {
	// ID is the token by which everything of the client is counted, and which goes into
	// queue.Job.Client: "net-…" with a keyed hash of the address, "key-…" with the
	// key's id, or "operator".
	ID   string
	Kind Kind
	// KeyID is the key's public name, of a KeyHolder alone.
	KeyID string
	// Access says that the access token was shown.
	Access bool
	// Net and Wide are the tokens of the address and the network that the request came
	// from. They are empty in a client that Restore made.
	Net, Wide string
}

// Restore is the client with an ID, as a job of the queue has it. Of an anonymous one
// it does not know the network. The error is an *api.FieldError.
func Restore(id string) (Client, error) {
	key, isKey := strings.CutPrefix(id, "key-")
	switch {
	case id == operatorID:
		return Client{ID: id, Kind: Operator}, nil
	case isKey && credential.KeyID.Is(key):
		return Client{ID: id, Kind: KeyHolder, KeyID: key}, nil
	case netForm.MatchString(id):
		return Client{ID: id, Kind: Anonymous, Net: id}, nil
	}
	return Client{}, &api.FieldError{Field: "client", Reason: "is not the id of a client"}
}

func unauthorized(why string) *api.ServiceError {
	return &api.ServiceError{Code: api.CodeUnauthorized, Message: why}
}

// Identify says who asks. Whoever shows a key or token is what it says or nobody:
// it is never ignored. The error is an *api.ServiceError with the code unauthorized,
// or internal when the store does not answer.
func (a *Admission) Identify(r *http.Request) (Client, error) {
	c := a.anonymous(a.address(r))
	token, shown, ok := bearer(r.Header)
	// Both are compared, whatever comes of the first.
	operator := a.o.OperatorToken != "" && credential.Equal(token, a.o.OperatorToken)
	access := a.o.AccessToken != "" && credential.Equal(token, a.o.AccessToken)
	switch {
	case shown && !ok:
		return Client{}, unauthorized("the Authorization header must be one, of the form: Bearer KEY")
	case !shown && a.o.AccessToken != "":
		return Client{}, unauthorized("a key or the access token of this installation is needed")
	case !shown:
		return c, nil
	case operator:
		c.ID, c.Kind = operatorID, Operator
		return c, nil
	case access:
		c.Access = true
		return c, nil
	}
	k, err := a.lookup(r.Context(), token)
	if err != nil {
		return Client{}, err
	}
	c.ID, c.Kind, c.KeyID = "key-"+k.id, KeyHolder, k.id
	return c, nil
}

// bearer is the token of the Authorization header: whether there is such a header, and
// whether it is one that can be a bearer token's.
func bearer(h http.Header) (token string, shown, ok bool) {
	all := h["Authorization"]
	if len(all) == 0 {
		return "", false, false
	}
	scheme, token, found := strings.Cut(all[0], " ")
	if len(all) > 1 || !found || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > 256 {
		return "", true, false
	}
	return token, true, true
}

// lookup finds the key that a text is.
func (a *Admission) lookup(ctx context.Context, text string) (*key, error) {
	if !credential.Key.Is(text) {
		return nil, unauthorized("no key or token of this service, or one that was revoked or is too old")
	}
	k, err := a.key(ctx, a.o.Secret.Derive(credential.KeyID, text))
	if err != nil {
		if !errors.Is(err, queue.ErrNotFound) {
			return nil, a.failed("a key cannot be read", err)
		}
		k = &key{} // it is compared all the same
	}
	if !credential.Equal(k.hash, a.o.Secret.Hash(keyPurpose, text)) {
		return nil, unauthorized("no key or token of this service, or one that was revoked or is too old")
	}
	return k, nil
}

// anonymous is the client with an address. What has none, as a peer on a unix
// socket, is one client.
func (a *Admission) anonymous(addr netip.Addr) Client {
	fine, coarse := a.o.IPv6Bits, a.o.CoarseIPv6Bits
	if addr.Is4() {
		fine, coarse = a.o.IPv4Bits, a.o.CoarseIPv4Bits
	}
	wide := a.o.Secret.Hash("client network", network(addr, coarse))[:32]
	// The first digits say where the counters are: in one place for a network.
	own := wide[:digits] + a.o.Secret.Hash("client address", network(addr, fine))[digits:32]
	c := Client{Kind: Anonymous, Net: "net-" + own, Wide: "wide-" + wide}
	c.ID = c.Net
	return c
}

func network(addr netip.Addr, bits int) string {
	p, err := addr.Prefix(bits)
	if err != nil {
		return "none"
	}
	return p.String()
}

// maxHops is how many hops of a proxy header are looked at.
const maxHops = 32

// address is the peer's, or the one that trusted proxies say they speak for: the
// right-most that is none of theirs, since everything to its left is what it said
// itself. A header that is not one, or there twice, says nothing.
func (a *Admission) address(r *http.Request) netip.Addr {
	peer := peerOf(r.RemoteAddr)
	if !a.trusted(peer) {
		return peer
	}
	values := r.Header[a.o.ProxyHeader]
	if len(values) != 1 {
		return peer
	}
	rest := values[0]
	for range maxHops {
		i := strings.LastIndexByte(rest, ',')
		hop, ok := parseHop(rest[i+1:])
		if !ok {
			return peer
		}
		if !a.trusted(hop) {
			return hop
		}
		if i < 0 {
			return peer
		}
		rest = rest[:i]
	}
	return peer
}

func (a *Admission) trusted(addr netip.Addr) bool {
	for _, p := range a.o.Trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

func peerOf(remote string) netip.Addr {
	p, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr().Unmap().WithZone("")
}

// parseHop reads an address of a proxy header, which may have a port.
func parseHop(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	addr, err := netip.ParseAddr(s)
	if err != nil {
		p, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = p.Addr()
	}
	addr = addr.Unmap()
	if addr.Zone() != "" || addr.IsUnspecified() || addr.IsMulticast() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return netip.Addr{}, false
	}
	return addr, true
}
