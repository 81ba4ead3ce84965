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

// words are those that cannot be a name in JavaScript as modules have it, or in a
// declaration of TypeScript.
var words = strings.Fields(`arguments as await break case catch class const continue debugger default delete do else enum eval export extends false
	finally for function if implements import in instanceof interface let new null package private protected public return satisfies static super switch this
	throw true try typeof undefined var void while with yield`)

// globals are the names that a guest's world has, with all that js.Options.Allow
// can add. A test holds them against those of the engine.
var globals = strings.Fields(`AggregateError Array ArrayBuffer Atomics BigInt BigInt64Array BigUint64Array Boolean DataView Date Error EvalError
	FinalizationRegistry Float16Array Float32Array Float64Array Function Infinity Int16Array Int32Array Int8Array Intl Iterator JSON Map Math NaN Number
	Object Promise Proxy RangeError ReferenceError Reflect RegExp Set String Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array
	Uint8ClampedArray WeakMap WeakRef WeakSet WebAssembly clearInterval clearTimeout console decodeURI decodeURIComponent encodeURI encodeURIComponent
	escape globalThis isFinite isNaN parseFloat parseInt setInterval setTimeout unescape`)

// inherited are what every object has; a test holds them against the engine's too.
var inherited = strings.Fields(`constructor hasOwnProperty isPrototypeOf propertyIsEnumerable toLocaleString toString valueOf`)

// asked are what the language asks objects for by itself: where there is such a
// tool it is called though no code of the guest does.
var asked = strings.Fields(`then toJSON`)

// typeWords are names of types that TypeScript has, or that its declarations could
// mean, besides words and globals: no type is called so.
var typeWords = strings.Fields(`abstract any ArrayBufferView asserts async AsyncFunction bigint boolean Buffer declare from Generator get global infer is
	keyof module namespace never Node number object of out override Partial Pick readonly Readonly Record Required require ReturnType set
	ShadowRealm SharedArrayBuffer string symbol type unique unknown URL using`)

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
		case slices.Contains(asked, part):
			return fmt.Sprintf("has %q, which the language asks objects for by itself", part)
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
