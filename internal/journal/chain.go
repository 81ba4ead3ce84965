package journal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"

	"github.com/glovebox-dev/glovebox/internal/keyring"
)

// Magic begins a journal. The digit is the version of the form.
const Magic = "GLOVEJ1\n"

// Sizes within a frame.
const (
	sizeHead  = 4 + 8 // length and check
	sizeInner = 1 + 4 // type and meta's length
	sizeMAC   = sha256.Size
	sizeNonce = 12
	sizeSeal  = sizeNonce + 16 // and tag
	maxFrame  = sizeInner + MaxMeta + MaxBlob + sizeSeal
)

// Chain is the mac of a frame: it stands for all records up to there.
type Chain [sizeMAC]byte

// String returns the chain in hexadecimal.
func (c Chain) String() string { return hex.EncodeToString(c[:]) }

// MarshalText writes it in hexadecimal.
func (c Chain) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, c[:]), nil }

// UnmarshalText reads what MarshalText writes.
func (c *Chain) UnmarshalText(text []byte) error {
	if len(text) != 2*sizeMAC {
		return errChain
	}
	n, err := hex.Decode(c[:], text)
	if err != nil || n != sizeMAC {
		return errChain
	}
	return nil
}

var errChain = errors.New("must be 64 hexadecimal digits")

// keys are the derived keys of one journal.
type keys struct {
	mac, length hash.Hash
	idem        hash.Hash
	// What goes into a hash and comes out of it, which would else be allocated for each.
	prev, out Chain
	seal      cipher.AEAD // nil until the journal is known to be sealed
	sealKey   []byte
}

// derive makes the keys of an owner's journal under a root key.
func derive(ring *keyring.Ring, id string, owner []byte) (*keys, error) {
	var all [4][]byte
	for i, purpose := range []string{"journal records", "journal lengths", "journal idempotency", "journal seal"} {
		k, err := ring.Derive(id, purpose, owner)
		if err != nil {
			return nil, err
		}
		all[i] = k
	}
	return &keys{mac: hmac.New(sha256.New, all[0]), length: hmac.New(sha256.New, all[1]), idem: hmac.New(sha256.New, all[2]), sealKey: all[3]}, nil
}

// sealing turns on the encryption of what follows.
func (k *keys) sealing() error {
	block, err := aes.NewCipher(k.sealKey)
	if err == nil {
		k.seal, err = cipher.NewGCM(block)
	}
	return err
}

// check is what a length is held against before anything behind it is read.
func (k *keys) check(prev Chain, length []byte) (sum [8]byte) {
	copy(sum[:], k.over(k.length, prev, length))
	return sum
}

func (k *keys) sum(prev Chain, frame []byte) Chain { return Chain(k.over(k.mac, prev, frame)) }

// over is the mac of a chain and what follows it, until the next one.
func (k *keys) over(h hash.Hash, prev Chain, data []byte) []byte {
	k.prev = prev
	h.Reset()
	h.Write(k.prev[:])
	h.Write(data)
	return h.Sum(k.out[:0])
}

// idempotency is the key of a call: stable, and nobody's guess.
func (k *keys) idempotency(session string, call uint64) string {
	k.idem.Reset()
	k.idem.Write(strconv.AppendUint([]byte(session+" "), call, 10))
	return hex.EncodeToString(k.idem.Sum(k.out[:0])[:16])
}

// inner appends what a frame holds of a record.
func (r *Record) inner(dst, meta []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(append(dst, byte(r.Type)), uint32(len(meta)))
	return append(append(dst, meta...), r.Blob...)
}

// append appends the frame of a record and returns the new chain.
func (k *keys) append(dst []byte, prev Chain, r *Record) ([]byte, Chain, error) {
	meta, err := r.encode(r.Type)
	if err != nil {
		return dst, prev, err
	}
	start, n := len(dst), sizeInner+len(meta)+len(r.Blob)
	sealed := k.seal != nil && r.Type != TypeHeader
	if sealed {
		n += sizeSeal
	}
	dst = slices.Grow(dst, sizeHead+n+sizeMAC)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	check := k.check(prev, dst[start:])
	dst = append(dst, check[:]...)
	if sealed {
		inner := r.inner(make([]byte, 0, n), meta)
		var nonce [sizeNonce]byte
		_, _ = rand.Read(nonce[:]) // never fails
		dst = k.seal.Seal(append(dst, nonce[:]...), nonce[:], inner, prev[:])
	} else {
		dst = r.inner(dst, meta)
	}
	chain := k.sum(prev, dst[start:])
	return append(dst, chain[:]...), chain, nil
}

// frame is one frame whose mac holds.
type frame struct {
	inner []byte
	chain Chain
	size  int
}

// errTorn is a frame that the bytes end within.
var errTorn = fmt.Errorf("torn")

// next reads the frame at the start of data. It looks at nothing before the mac
// holds but the length, which has a check of its own.
func (k *keys) next(prev Chain, data []byte) (f frame, err error) {
	if len(data) < sizeHead {
		return f, errTorn
	}
	if check := k.check(prev, data[:4]); !hmac.Equal(check[:], data[4:sizeHead]) {
		if blank(data) {
			return f, errTorn // room that the file system gave, and no bytes
		}
		return f, fail(Forged, "a length is not what was written")
	}
	n := int(binary.LittleEndian.Uint32(data))
	if n < sizeInner || n > maxFrame {
		return f, fail(Odd, "a record of %d bytes", n)
	}
	f.size = sizeHead + n + sizeMAC
	if len(data) < f.size {
		return f, errTorn
	}
	f.chain = k.sum(prev, data[:sizeHead+n])
	if !hmac.Equal(f.chain[:], data[sizeHead+n:f.size]) {
		return f, fail(Forged, "a record is not what was written")
	}
	f.inner = data[sizeHead : sizeHead+n : sizeHead+n]
	return f, nil
}

// maxBlank is how much room without bytes may be at the end.
const maxBlank = maxFrame + sizeHead + sizeMAC

func blank(data []byte) bool {
	if len(data) > maxBlank {
		return false
	}
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

// open takes a frame apart, and decrypts it where that is due.
func (k *keys) open(f frame, prev Chain, sealed bool) (Record, error) {
	inner := f.inner
	if sealed {
		if len(inner) < sizeSeal+sizeInner {
			return Record{}, fail(Odd, "a sealed record of %d bytes", len(inner))
		}
		n := k.seal.NonceSize()
		plain, err := k.seal.Open(nil, inner[:n], inner[n:], prev[:])
		if err != nil {
			return Record{}, fail(Forged, "a sealed record does not open")
		}
		inner = plain
	}
	meta := int(binary.LittleEndian.Uint32(inner[1:]))
	if meta > MaxMeta || meta > len(inner)-sizeInner || len(inner)-sizeInner-meta > MaxBlob {
		return Record{}, fail(Odd, "a record of %d bytes with %d of meta", len(inner), meta)
	}
	cut := sizeInner + meta
	r, err := parse(Type(inner[0]), inner[sizeInner:cut], inner[cut:len(inner):len(inner)])
	if err != nil {
		return Record{}, fail(Odd, "%v", err)
	}
	return r, nil
}

// firstKey reads the id of the key out of a first frame that nobody has judged
// yet: it looks for nothing else, and whatever it finds only chooses a key, under
// which the frame holds or not.
func firstKey(data []byte) (string, error) {
	if len(data) < sizeHead+sizeInner {
		return "", errTorn
	}
	n, meta := int(binary.LittleEndian.Uint32(data)), int(binary.LittleEndian.Uint32(data[sizeHead+1:]))
	if n > maxFrame || meta > MaxMeta || meta > n-sizeInner || n < sizeInner {
		return "", fail(Forged, "the first record is none")
	}
	if len(data) < sizeHead+sizeInner+meta {
		return "", errTorn
	}
	text := data[sizeHead+sizeInner:][:meta]
	// json.Marshal writes the key first, and an id needs no escape.
	const lead = `{"key":"`
	if Type(data[sizeHead]) != TypeHeader || len(text) < len(lead) || string(text[:len(lead)]) != lead {
		return "", fail(Forged, "the first record is none")
	}
	for i, c := range text[len(lead):min(len(text), len(lead)+40)] {
		if c == '"' {
			return string(text[len(lead):][:i]), nil
		}
	}
	return "", fail(Forged, "the first record names no key")
}

// newSession returns a random session id.
func newSession() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Head is where a journal ends, for a place that its keeper cannot rewind.
type Head struct {
	Session string `json:"session"`
	Count   uint64 `json:"count"` // records, those a compacted journal stands for among them
	Chain   Chain  `json:"chain"` // hexadecimal
	Spent   Spent  `json:"spent"`
}

// Heads writes the heads of one owner's journals.
type Heads struct {
	id  string
	mac hash.Hash
}

// NewHeads derives the key of an owner's heads. What it returns is not safe for
// concurrent use.
func NewHeads(ring *keyring.Ring, owner []byte) (*Heads, error) {
	key, err := ring.Derive(ring.Current(), "journal head", owner)
	if err != nil {
		return nil, err
	}
	return &Heads{ring.Current(), hmac.New(sha256.New, key)}, nil
}

// Marshal writes a head with a mac of its own: who keeps it can go back to an
// older one, which the place must prevent, and make none.
func (k *Heads) Marshal(h Head) ([]byte, error) {
	body, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	k.mac.Reset()
	k.mac.Write(body)
	out := append([]byte(k.id), '\n')
	out = append(hex.AppendEncode(out, k.mac.Sum(nil)), '\n')
	return append(out, body...), nil
}

// Marshal is that of the owner's [Heads].
func (h Head) Marshal(ring *keyring.Ring, owner []byte) ([]byte, error) {
	k, err := NewHeads(ring, owner)
	if err != nil {
		return nil, err
	}
	return k.Marshal(h)
}
