package wire_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/wire"
)

var update = flag.Bool("update", false, "write the tables of docs/wire.md")

const (
	docs  = "../../docs/wire.md"
	begin = "<!-- From here on made by `go test ./internal/wire -run Docs -update`. -->\n"
)

// The tables of docs/wire.md are what the code says. With -update they are
// written.
//
// proves part of T-12
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	head, tail, ok := strings.Cut(string(text), begin)
	if !ok {
		t.Fatalf("%s has no line %q", docs, begin)
	}
	if tail == tables() {
		return
	}
	if !*update {
		t.Fatalf("%s is not current: go test ./internal/wire -run Docs -update", docs)
	}
	if err := os.WriteFile(docs, []byte(head+begin+tables()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func tables() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("\n## Types × directions × budgets\nA frame has at most %s bytes behind its length. Each row has messages that come back and payloads that are refused in `TestTypes`.\n", number(wire.MaxFrame))
	say("| type | message | from | payload at most | fields |\n| --- | --- | --- | --- | --- |")
	for _, r := range wire.TypeRows() {
		say("| %d | %s | %v | %s | %s |", r.Type, r.Name, r.From, number(r.Max), fields(reflect.TypeOf(r.Fresh).Elem()))
	}
	say("\n## Tags × directions × budgets\nEvery tag goes both ways, in Eval, Call, Done and Answer. Each is a node, of which a value has at most 1,000,000; depth is at most 128 and")
	say("a container has at most 1,048,576 elements; an encoded value has at most %s bytes and takes at most %d times as many in Go.", number(wire.MaxValue), wire.Amplification)
	say("Each row has values that come back and encodings that are refused in `TestTags`.\n")
	say("| tag | value | operands after the tag | in Go | bounded besides by |\n| --- | --- | --- | --- | --- |")
	for _, r := range wire.TagRows() {
		say("| %d | %s | %s | `%s` | %s |", r.Tag, r.Name, dash(r.Operands), r.Go, dash(r.Budget))
	}
	say("\n## Kinds of bytes\n\n| kind | class | size of an element |\n| --- | --- | --- |")
	for k := wire.ArrayBuffer; k.Size() > 0; k++ {
		say("| %d | %v | %d |", k, k, k.Size())
	}
	return b.String()
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

func fields(t reflect.Type) string {
	var all []string
	for i := range t.NumField() {
		all = append(all, t.Field(i).Name)
	}
	return dash(strings.Join(all, ", "))
}

// number writes n with commas.
func number(n int) string {
	s := fmt.Sprint(n)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
