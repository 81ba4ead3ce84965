package agent

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// toolName is a name of a tool: identifiers of ASCII joined by dots.
var toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}(\.[A-Za-z][A-Za-z0-9_]{0,63}){0,3}$`)

// maxName is the length of a name, in bytes: of one that toolName takes.
const maxName = 4*64 + 3

// words are those that JavaScript or TypeScript reads as something else than a
// name, at least somewhere.
var words = strings.Fields(`abstract any arguments as asserts async await boolean break case catch class const constructor continue debugger declare
	default delete do else enum eval export extends false finally for from function get global if implements import in infer instanceof interface is
	keyof let module namespace never new null number object of out override package private protected public readonly require return satisfies set
	static string super switch symbol this throw true try type typeof undefined unique unknown using var void while with yield`)

// globals are names that a guest's world has, or had before some were taken
// away, or that programs of other worlds look for.
var globals = strings.Fields(`AggregateError Array ArrayBuffer ArrayBufferView AsyncFunction Atomics BigInt BigInt64Array BigUint64Array Boolean Buffer
	DataView Date Deno DisposableStack Error EvalError FinalizationRegistry Float16Array Float32Array Float64Array Function Generator Infinity Int16Array
	Int32Array Int8Array Intl Iterator JSON Map Math NaN Node Number Object Partial Pick Promise Proxy RangeError Readonly Record ReferenceError Reflect
	RegExp Required ReturnType Set ShadowRealm SharedArrayBuffer String SuppressedError Symbol SyntaxError Temporal TypeError URIError URL Uint16Array
	Uint32Array Uint8Array Uint8ClampedArray WeakMap WeakRef WeakSet WebAssembly Window Worker XMLHttpRequest clearImmediate clearInterval clearTimeout
	console crypto decodeURI decodeURIComponent document encodeURI encodeURIComponent escape exports fetch globalThis isFinite isNaN navigator parseFloat
	parseInt performance process print queueMicrotask self setImmediate setInterval setTimeout structuredClone unescape window`)

// inherited are what every object has, and what makes one a promise, a list or
// a text in the eyes of the language.
var inherited = strings.Fields(`constructor hasOwnProperty isPrototypeOf propertyIsEnumerable prototype then toJSON toLocaleString toString valueOf`)

// reservedPrefixes are kept for Glovebox, and for what the engine has inside.
var reservedPrefixes = []string{"__", "glovebox"}

// catalogSpace is where the functions of discovery are.
const catalogSpace = "catalog"

// checkName says why a name cannot be a tool's, or "".
func checkName(name string) string {
	if len(name) > maxName || !toolName.MatchString(name) {
		return "must be one to four identifiers of ASCII letters, digits and _ joined by dots"
	}
	parts := strings.Split(name, ".")
	for i, part := range parts {
		for _, p := range reservedPrefixes {
			if strings.HasPrefix(strings.ToLower(part), p) {
				return fmt.Sprintf("begins with %q, which is reserved", p)
			}
		}
		switch {
		case slices.Contains(words, part):
			return fmt.Sprintf("has %q, a word of the language", part)
		case slices.Contains(inherited, part):
			return fmt.Sprintf("has %q, which every object has", part)
		case i == 0 && slices.Contains(globals, part):
			return fmt.Sprintf("begins with %q, a name that guests have already", part)
		}
	}
	if parts[0] == catalogSpace {
		return "is in the namespace of the catalog itself"
	}
	return ""
}

// checkWord says why a name cannot be a parameter's, or "".
func checkWord(name string) string {
	switch {
	case len(name) > maxName || strings.Contains(name, ".") || !toolName.MatchString(name):
		return "must be an identifier of ASCII letters, digits and _"
	case slices.Contains(words, name):
		return "is a word of the language"
	}
	return ""
}

// skeleton is what two names have in common that a reader could take for each
// other: case, underscores, and letters that look like digits do not count.
func skeleton(name string) string {
	return strings.NewReplacer("_", "", "1", "l", "i", "l", "0", "o", "5", "s", "2", "z", "8", "b", "rn", "m", "vv", "w").Replace(strings.ToLower(name))
}

// collision says what a set of names has that cannot be told apart, or that is
// a tool and a namespace at once; "" for nothing.
func collision(names []string) string {
	seen := map[string]string{}
	for _, name := range names {
		s := skeleton(name)
		if other, there := seen[s]; there {
			return fmt.Sprintf("%s and %s cannot be told apart", other, name)
		}
		seen[s] = name
	}
	spaces := map[string]string{} // skeleton -> namespace
	for _, name := range names {
		parts := strings.Split(name, ".")
		for i := 1; i < len(parts); i++ {
			space := strings.Join(parts[:i], ".")
			if tool, there := seen[skeleton(space)]; there {
				return fmt.Sprintf("the tool %s and the namespace of %s cannot be told apart", tool, name)
			}
			if other, there := spaces[skeleton(space)]; there && other != space {
				return fmt.Sprintf("the namespaces %s and %s cannot be told apart", other, space)
			}
			spaces[skeleton(space)] = space
		}
	}
	return ""
}

// GuestName makes a tool's name of one that a server gave it, such as
// "get-weather" or "files/read": what identifiers do not have becomes an
// underscore. It may still be refused, by [NewCatalog].
func GuestName(server string) string {
	var b strings.Builder
	server = server[:min(len(server), maxName+1)]
	for i, r := range server {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		switch {
		case letter, i > 0 && (r >= '0' && r <= '9' || r == '_'), r == '.' && i > 0:
			b.WriteRune(r)
		case i == 0:
			b.WriteString("t_")
			if r >= '0' && r <= '9' {
				b.WriteRune(r)
			}
		default:
			b.WriteByte('_')
		}
	}
	return b.String()
}
