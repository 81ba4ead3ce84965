package jstoken_test // package js, which it asks, is above package jstoken

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/jstoken"
	"github.com/glovebox-dev/glovebox/internal/testenv"
	"github.com/glovebox-dev/glovebox/js"
)

// parses asks the engine which texts are scripts. Each is parsed as a whole and
// then ends at its first statement.
func parses(t *testing.T, rt *js.Runtime, texts []string) []bool {
	t.Helper()
	literal := make([]string, len(texts))
	for i, s := range texts {
		literal[i] = strconv.QuoteToASCII(s)
		if strings.ContainsAny(literal[i], "\a") || strings.Contains(literal[i], `\U`) || strings.Contains(literal[i], `\a`) {
			t.Fatalf("%q has no literal", s)
		}
	}
	v, err := rt.Eval(context.Background(), `[`+strings.Join(literal, ",\n")+`].map(s => {
		try { (0, eval)("throw 0;\n" + s) } catch (e) { return e === 0 }
	})`)
	if err != nil {
		t.Fatal(err)
	}
	var out []bool
	if err := v.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func engine(t *testing.T) *js.Runtime {
	t.Helper()
	rt, err := js.New(context.Background(), js.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker(), Limits: js.Limits{TimeoutMS: 60_000, HardMS: 70_000, CPUMS: 100_000}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// What follows a text can be one of these: the first is JavaScript only if its
// slash begins a regular expression, the second only if it divides.
const (
	asRegexp   = " /[)}`\"]/.x "
	asDivision = " / 1 "
)

// slashAt is what the slash at a byte of a text is taken for.
func slashAt(text string, at int, o jstoken.Options) jstoken.Kind {
	for t := jstoken.New(text, o); ; {
		tok := t.Next()
		if tok.Start >= at || tok.Kind == jstoken.EOF {
			if tok.Start != at {
				return jstoken.EOF
			}
			return tok.Kind
		}
	}
}

// compare holds the tokenizer's reading of a slash between before and after
// against the engine's, where the engine takes one of the two. It returns how
// many there were.
func compare(t *testing.T, rt *js.Runtime, holes [][2]string) (decided int) {
	t.Helper()
	var texts []string
	for _, h := range holes {
		texts = append(texts, h[0]+asRegexp+h[1], h[0]+asDivision+h[1])
	}
	took := parses(t, rt, texts)
	for i, h := range holes {
		regexp, division := took[2*i], took[2*i+1]
		if regexp && division {
			t.Errorf("%q: the engine takes both", h)
		}
		at := len(h[0]) + 1
		switch {
		case regexp == division, isUnsure(h[0]):
		case regexp && slashAt(texts[2*i], at, jstoken.Options{}) != jstoken.Regexp:
			t.Errorf("the engine reads a regular expression: %s", texts[2*i])
		case division && slashAt(texts[2*i+1], at, jstoken.Options{}) != jstoken.Punct:
			t.Errorf("the engine divides: %s", texts[2*i+1])
		case regexp:
			decided++
			clean(t, texts[2*i])
		default:
			decided++
			clean(t, texts[2*i+1])
		}
	}
	return decided
}

// clean holds that a text which the engine takes has no problem.
func clean(t *testing.T, text string) {
	t.Helper()
	tz := jstoken.New(text, jstoken.Options{})
	for tz.Next().Kind != jstoken.EOF {
	}
	if p := tz.Problem(); p != nil {
		t.Errorf("%d:%d %s, and the engine takes it: %s", p.Line, p.Col, p.Text, text)
	}
}

// isUnsure tells whether a text has the one thing that tokens cannot tell.
func isUnsure(text string) bool {
	tz := jstoken.New(text, jstoken.Options{})
	for tz.Next().Kind != jstoken.EOF {
	}
	return tz.Problem() != nil && tz.Problem().Text == jstoken.Unsure
}

// The one thing that tokens cannot tell is refused where the engine takes it.
func TestUnsure(t *testing.T) {
	for i, took := range parses(t, engine(t), unsures) {
		if !took || !isUnsure(unsures[i]) {
			t.Errorf("%q: the engine takes it: %v; it is unsure: %v", unsures[i], took, isUnsure(unsures[i]))
		}
	}
}

// Whether a slash divides or begins a regular expression is what the engine
// says, in every place of the grammar that decides it.
//
// proves part of H-48
func TestSlashesAsTheEngine(t *testing.T) {
	rt := engine(t)
	var holes [][2]string
	for _, s := range slashes {
		before, after, ok := strings.Cut(s, "▮")
		if !ok {
			t.Fatalf("no hole in %q", s)
		}
		holes = append(holes, [2]string{before, after})
	}
	if n := compare(t, rt, holes); n != len(slashes) {
		took := []string{}
		for _, h := range holes {
			a, b := h[0]+asRegexp+h[1], h[0]+asDivision+h[1]
			if r := parses(t, rt, []string{a, b}); r[0] == r[1] {
				took = append(took, fmt.Sprintf("%q", h))
			}
		}
		t.Errorf("the engine decides %d of %d; not %s", n, len(slashes), strings.Join(took, "\n"))
	}
}

// What is a comment is what the engine says: behind it a parenthesis is nothing,
// elsewhere it is one that is never closed.
//
// proves part of H-48
func TestCommentsAsTheEngine(t *testing.T) {
	comments := 0
	texts := []string{
		"// (", "/* ( */", "/* ( *", "<!-- (", "a <!-- (", "a <!- (", "a < !-- (", "a <!--\n(", "--> (", " --> (", "\n--> (", "a\n--> (", "a --> (", "a;--> (", "a;\n --> (", "/**/--> (", "/*\n*/--> (",
		"a/*\n*/--> (", "a/**/--> (", "a/*\u2028*/ --> (", "a\u2029--> (", "a\r--> (", "a /* */ /* \n */ --> (", "a /* \n */ /* */ --> (", "a // \n --> (", "'\\\n'--> (", "`\n`--> (", "a\n-- > (", "a\n-->(",
		"/a/<!-- (", "`${a<!-- (\n}`", "`<!-- ${1}(`", "'<!--' + (", "a\n/*\n*//*(*/", "#!(", "a\n#!(", " #!(", "// \u2028(", "// \u2029(", "// \u0085(", "// \v(", "/*/ (", "/*/*/ (", "/**/ (", "/***/ (", "a\u00a0\n-->(",
		"a\ufeff\n\ufeff-->(", "a\u0085b (", "a\u180eb (", "\ufeff-->(", "\ufeff#!(",
	}
	rt := engine(t)
	for i, took := range parses(t, rt, texts) {
		if strings.HasPrefix(texts[i], "#!") || strings.HasPrefix(strings.TrimPrefix(texts[i], "\ufeff"), "-->") {
			continue // parses puts a line before it
		}
		tz := jstoken.New(texts[i], jstoken.Options{})
		for tz.Next().Kind != jstoken.EOF {
		}
		if took {
			comments++
		}
		if took != (tz.Problem() == nil) {
			t.Errorf("%q: the engine takes it: %v; %+v", texts[i], took, tz.Problem())
		}
	}
	if comments < 20 {
		t.Errorf("only %d", comments)
	}
	// What can only stand at the beginning is read there.
	for text, want := range map[string]bool{"#!(": true, " #!(": false, "\ufeff#!(": false, "-->(": true, "/**/-->(": true, "/*\n*/-->(": true, "\ufeff-->(": true, "1-->(": false} {
		_, err := rt.Eval(context.Background(), text)
		tz := jstoken.New(text, jstoken.Options{})
		for tz.Next().Kind != jstoken.EOF {
		}
		if (err == nil) != (tz.Problem() == nil) || want != (err == nil) {
			t.Errorf("%q: the engine says %v, the tokens %+v", text, err, tz.Problem())
		}
	}
}

// The same of texts that are put together by chance.
//
// proves part of H-48
func TestChanceAsTheEngine(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("GLOVEBOX_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("GLOVEBOX_TEST_SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	rt := engine(t)
	rounds := 8
	if s := os.Getenv("GLOVEBOX_TOKEN_ROUNDS"); s != "" {
		rounds, _ = strconv.Atoi(s)
	}
	decided := 0
	for range rounds {
		var holes [][2]string
		for range 2000 {
			s := slashes[rnd.IntN(len(slashes))]
			for range 1 + rnd.IntN(3) {
				at := strings.Index(s, "▮")
				s = s[:at] + pieces[rnd.IntN(len(pieces))] + s[at+len("▮"):]
			}
			before, after, _ := strings.Cut(s, "▮")
			holes = append(holes, [2]string{before, after})
		}
		decided += compare(t, rt, holes)
		if t.Failed() {
			return
		}
	}
	t.Logf("the engine decided %d of %d", decided, 2000*rounds)
	if decided < rounds*100 {
		t.Errorf("the engine decided only %d", decided)
	}
}
