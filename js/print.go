package js

import (
	"math/big"
	"strconv"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

// The bounds of [Value.String].
const (
	maxPrint         = 4096 // bytes in all
	maxPrintDepth    = 4    // containers inside each other
	maxPrintElements = 64   // of one container
	maxPrintString   = 256  // bytes of a string inside a container
	maxPrintBytes    = 16   // of bytes
	maxPrintBits     = 4096 // of a BigInt
)

// String shows v to people, much like console.log: a string as it is, strings
// inside others in quotes. It is not to be parsed: long and deep values are cut,
// to 4 KiB in all, and characters that a terminal could obey or that hide text
// are taken away.
func (v Value) String() string {
	var p printer
	if s, ok := v.tree.(string); ok {
		return clean(s, maxPrint)
	}
	p.value(v.wire(), 0)
	return clean(string(p.b), maxPrint)
}

type printer struct{ b []byte }

func (p *printer) add(s string) { p.b = append(p.b, s...) }

func (p *printer) value(tree any, depth int) {
	switch t := tree.(type) {
	case string:
		p.b = appendString(p.b, wtf8(cut(t, maxPrintString)))
	case float64:
		p.b = appendNumber(p.b, t)
	case bool:
		p.b = strconv.AppendBool(p.b, t)
	case *big.Int:
		if t.BitLen() > maxPrintBits {
			p.add("<" + describe(t) + ">")
		} else {
			p.add(t.String() + "n")
		}
	case wire.Date:
		p.add(dateText(t))
	case wire.Hole:
		p.add("<empty>")
	case *wire.Error:
		e := ErrorValue{Name: t.Name, Message: t.Message}
		p.add(e.Error())
	case *wire.Bytes:
		p.bytes(t)
	case []any:
		p.list("", "[", "]", t, depth, func(i int) { p.value(t[i], depth+1) })
	case *wire.Object:
		p.list("", "{", "}", t.Values, depth, func(i int) {
			p.property(t.Keys[i])
			p.add(": ")
			p.value(t.Values[i], depth+1)
		})
	case *wire.Map:
		p.list("Map", "{", "}", t.Keys, depth, func(i int) {
			p.value(t.Keys[i], depth+1)
			p.add(" => ")
			p.value(t.Values[i], depth+1)
		})
	case *wire.Set:
		p.list("Set", "{", "}", t.Values, depth, func(i int) { p.value(t.Values[i], depth+1) })
	default:
		p.add(kindOf(tree).String())
	}
}

func (p *printer) property(name string) {
	if identifier(name) {
		p.add(name)
	} else {
		p.b = appendString(p.b, wtf8(cut(name, maxPrintString)))
	}
}

func (p *printer) list(class, begin, end string, values []any, depth int, one func(int)) {
	if class != "" {
		p.add(class + "(" + strconv.Itoa(len(values)) + ") ")
	}
	p.add(begin)
	for i := range values {
		if i > 0 {
			p.add(", ")
		}
		if depth == maxPrintDepth || i == maxPrintElements || len(p.b) > maxPrint {
			p.add(ellipsis)
			break
		}
		one(i)
	}
	p.add(end)
}

func (p *printer) bytes(v *wire.Bytes) {
	p.add(v.Kind.String() + "(" + count(len(v.Data), "byte") + ") <")
	for _, c := range v.Data[:min(len(v.Data), maxPrintBytes)] {
		p.b = append(p.b, hexDigits[c>>4], hexDigits[c&15])
	}
	if len(v.Data) > maxPrintBytes {
		p.add(ellipsis)
	}
	p.add(">")
}
