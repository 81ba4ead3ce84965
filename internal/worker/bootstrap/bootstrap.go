// Package bootstrap is what a worker evaluates before any code of the guest: the
// codec of values inside the engine. It lives in a realm of its own, whose
// built-ins the guest cannot reach, so that nothing the guest changes changes it.
//
// A value crosses as internal/wire describes: the engine walks it and hands
// over three blocks of bytes, and makes it from three.
package bootstrap

import (
	_ "embed"
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox/internal/jsc"
)

//go:embed buffers.js
var buffersSource string

//go:embed guest.js
var guestSource string

//go:embed codec.js
var codecSource string

// Limits bound one value either way. A field that is zero means its default.
type Limits struct {
	Nodes    int // values of all kinds, holes too; default 1,000,000
	Depth    int // arrays, objects, maps and sets inside each other; default and at most 128
	Elements int // of one array, map or set, or keys of one object; default 1,048,576
	Size     int // bytes of structure and data and units of the heap; default 16 MiB less 4 KiB
	// Buffers are bytes of all buffers of the guest that live at one time, those
	// that Decode makes among them; default as many as there may be.
	Buffers int64
}

// Refused is the error for a value that does not cross, with one of the words
// of Reasons.
type Refused struct{ Reason string }

// Error says why the value does not cross.
func (r *Refused) Error() string {
	if text, ok := Reasons[r.Reason]; ok {
		return text
	}
	return "the value cannot cross"
}

// Reasons are all the reasons of a Refused, and what they mean.
var Reasons = map[string]string{
	"function":  "a function cannot cross",
	"symbol":    "a symbol cannot cross",
	"accessor":  "a property with a getter or setter cannot cross: no guest code runs while a value is read",
	"opaque":    "a promise, a weak collection, a regular expression, an iterator or a generator cannot cross",
	"revoked":   "a revoked Proxy cannot cross",
	"proxies":   "more than 64 Proxies stand for each other",
	"detached":  "a view of a detached buffer cannot cross",
	"cycle":     "an object that contains itself cannot cross",
	"depth":     "the value is nested too deeply",
	"nodes":     "the value has too many parts",
	"elements":  "an array, map, set or object has too many elements",
	"size":      "the value is too large",
	"buffers":   "no room for a buffer",
	"stack":     "no memory or stack is left to read the value",
	"malformed": "the encoding is none",
}

// Encoding is a value as it leaves or enters the engine.
type Encoding struct {
	Words []byte // the structure, eight bytes a word
	Heap  []byte // the strings, UTF-16LE; into the engine Latin-1, if it is not Wide
	Wide  bool   // always, out of the engine
	Bytes []byte
}

// Codec is the codec of one context. Like the context it is for one goroutine.
// It may be used in a callback, also in one that runs while it is used.
type Codec struct {
	c              *jsc.Context
	realm          *jsc.Realm
	encode, decode *jsc.Value
	look, isProxy  *jsc.Value
	capture, state *jsc.Value
	given          *Encoding // what an encode in progress has delivered
}

// New makes the codec. It must be called before any code of the guest runs, and
// before any other script: the guest's built-ins are looked at now, those that
// allocate buffers are replaced by some that are charged for it, and Proxy by
// one that remembers what each stands for.
func New(c *jsc.Context, l Limits) (*Codec, error) {
	k := &Codec{c: c}
	var err error
	if k.realm, err = c.NewRealm(); err != nil {
		return nil, err
	}
	deliver, err := k.realm.NewFunction(k.deliver)
	if err != nil {
		return nil, err
	}
	defer deliver.Release()
	make, err := k.realm.Evaluate(codecSource, "", 1)
	if err != nil {
		return nil, fmt.Errorf("bootstrap: codec: %w", err)
	}
	defer make.Release()
	part, err := c.Call(make, nil, deliver)
	if err != nil {
		return nil, fmt.Errorf("bootstrap: codec: %w", err)
	}
	defer part.Release()
	f := map[string]*jsc.Value{}
	for _, name := range []string{"encode", "decode", "proxied", "from", "limits", "isProxy", "guest"} {
		text := c.Text(name)
		if f[name], err = c.Call(part, nil, text); err != nil {
			return nil, fmt.Errorf("bootstrap: %s: %w", name, err)
		}
		text.Release()
	}
	k.encode, k.decode = f["encode"], f["decode"]
	k.isProxy = f["isProxy"]
	if err := k.makeKeep(f["guest"]); err != nil {
		return nil, err
	}
	k.realm.SetEval(false, "no code from strings") // for whoever should come by an object of this realm
	if k.look, err = k.charge(l.Buffers); err != nil {
		return nil, err
	}
	if err := k.meet(f["proxied"], f["from"]); err != nil {
		return nil, err
	}
	return k, k.limit(f["limits"], l)
}

// meet evaluates the guest's part and gives each part what it needs of the other.
func (k *Codec) meet(proxied, from *jsc.Value) error {
	guest, err := k.c.Evaluate(guestSource, "", 1)
	if err != nil {
		return fmt.Errorf("bootstrap: guest: %w", err)
	}
	given, err := k.c.Call(guest, nil, proxied, k.look)
	if err != nil {
		return fmt.Errorf("bootstrap: guest: %w", err)
	}
	if _, err := k.c.Call(from, nil, given); err != nil {
		return fmt.Errorf("bootstrap: codec: %w", err)
	}
	guest.Release()
	given.Release()
	proxied.Release()
	from.Release()
	return nil
}

// IsProxy is a function of the codec's realm that tells whether a value is a Proxy,
// for scripts of ours where no guest code is below. The caller releases it; there
// is no other.
func (k *Codec) IsProxy() *jsc.Value { return k.isProxy }

// Look is a function of the guest's realm for scripts of ours: look(f, name,
// length) makes f look like a built-in one, Function.prototype.toString included.
// The caller releases it; there is no other.
func (k *Codec) Look() *jsc.Value { return k.look }

// charge puts in place what is charged for the memory of buffers. The function
// that it returns makes functions look native, and wants to know of each Proxy.
func (k *Codec) charge(budget int64) (*jsc.Value, error) {
	if budget <= 0 {
		budget = 1<<53 - 1
	}

	tally, err := k.c.NewTally()
	if err != nil {
		return nil, err
	}
	args := []*jsc.Value{nil, nil, tally.Shared(), k.c.Number(float64(budget))}
	for i, h := range []jsc.Handler{tally.Add, tally.Sweep} {
		if args[i], err = k.c.NewFunction(h); err != nil {
			return nil, err
		}
	}
	make, err := k.c.Evaluate(buffersSource, "", 1)
	if err != nil {
		return nil, fmt.Errorf("bootstrap: buffers: %w", err)
	}
	defer make.Release()
	seen, err := k.c.Call(make, nil, args...)
	if err != nil {
		return nil, fmt.Errorf("bootstrap: buffers: %w", err)
	}
	return seen, nil
}

func (k *Codec) limit(limits *jsc.Value, l Limits) error {
	var args []*jsc.Value
	for _, n := range [][2]int{{l.Nodes, 1_000_000}, {l.Depth, 128}, {l.Elements, 1 << 20}, {l.Size, 1<<24 - 4096}} {
		if n[0] <= 0 {
			n[0] = n[1]
		}
		args = append(args, k.c.Number(float64(n[0])))
	}
	if l.Depth > 128 {
		return errors.New("bootstrap: values are at most 128 deep")
	}
	_, err := k.c.Call(limits, nil, args...)
	for _, a := range append(args, limits) {
		a.Release()
	}
	return err
}

// deliver takes what encode hands over.
func (k *Codec) deliver(call *jsc.Call) (*jsc.Value, error) {
	words, err1 := call.Arg(0).Bytes()
	heap, err2 := call.Arg(1).UTF16()
	data, err3 := call.Arg(2).Bytes()
	k.given = &Encoding{Words: words, Heap: heap, Wide: true, Bytes: data}
	return nil, errors.Join(err1, err2, err3)
}

// Encode returns the encoding of a value of the guest. No code of the guest runs
// meanwhile: prototypes, getters, toJSON and Proxies are never asked. What has
// no encoding is a *Refused; nothing of it has been copied.
//
//   - Objects give their own enumerable properties with string keys, in the
//     language's order; symbols as keys and what prototypes have do not cross.
//   - What a value is, is looked up where its chain of prototypes says, and
//     confirmed by its internal slots.
//   - Number, String, Boolean and BigInt objects cross as what they hold.
//   - A Proxy crosses as what it stands for.
func (k *Codec) Encode(v *jsc.Value) (*Encoding, error) {
	k.given = nil
	refused, err := k.c.Call(k.encode, nil, v)
	given := k.given
	k.given = nil
	if err != nil {
		return nil, err
	}
	defer refused.Release()
	if refused.Type() == jsc.String {
		reason, err := refused.Text()
		return nil, errors.Join(&Refused{reason}, err)
	}
	if given == nil {
		return nil, errors.New("bootstrap: nothing was delivered")
	}
	return given, nil
}

// Decode makes a value of the guest's realm from an encoding. Properties are
// defined, never set: no setter of the guest sees one, whatever its name.
// An encoding that is none, or too large, is a *Refused.
func (k *Codec) Decode(e Encoding) (*jsc.Value, error) {
	words, err := k.realm.Array(jsc.Float64, e.Words)
	if err != nil {
		return nil, err
	}
	defer words.Release()
	data, err := k.realm.Array(jsc.Uint8, e.Bytes)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	var heap *jsc.Value
	if e.Wide {
		heap = k.c.UTF16(e.Heap)
	} else {
		heap = k.c.Latin1(e.Heap)
	}
	defer heap.Release()
	length := k.c.Number(float64(len(e.Words) / 8))
	defer length.Release()
	v, err := k.c.Call(k.decode, nil, words, length, heap, data)
	var thrown *jsc.Exception
	if !errors.As(err, &thrown) {
		return v, err
	}
	defer thrown.Value.Release()
	reason, err := thrown.Value.Text()
	return nil, errors.Join(&Refused{reason}, err)
}
