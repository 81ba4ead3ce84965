package ledger

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Scan reads every test and script below root and returns what they prove, the
// names of all of them, and one sentence for each line that says it wrongly.
func Scan(root fs.FS) (proofs map[string][]string, tests map[string]bool, problems []string, err error) {
	s := scanner{proofs: map[string][]string{}, tests: map[string]bool{}}
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", ".cache", "bin", "vendor"}, name) {
				return fs.SkipDir
			}
			return nil
		}
		switch {
		case strings.HasSuffix(name, "_test.go"):
			return s.goFile(root, name)
		case path.Ext(name) == ".txtar":
			return s.script(root, name)
		}
		return nil
	})
	for id := range s.proofs {
		slices.Sort(s.proofs[id])
		s.proofs[id] = slices.Compact(s.proofs[id])
	}
	return s.proofs, s.tests, s.problems, err
}

type scanner struct {
	proofs   map[string][]string
	tests    map[string]bool
	problems []string
}

var (
	provesLine = regexp.MustCompile(`^\s*proves\s+(part of\s+)?(.*)$`)
	idLike     = regexp.MustCompile(`^[A-Z]-\d`)
	testName   = regexp.MustCompile(`^(Test|Fuzz|Example|Benchmark)([^a-z]|$)`)
)

// take records what a comment's line says that a test proves. Words after the ids are a remark.
func (s *scanner) take(where, line, test string) {
	m := provesLine.FindStringSubmatch(line)
	if m == nil {
		return
	}
	if m[1] != "" {
		test += inPart
	}
	for _, word := range strings.FieldsFunc(m[2], func(r rune) bool { return r == ' ' || r == ',' || r == '\t' }) {
		word = strings.TrimRight(word, ".;:")
		if !idLike.MatchString(word) {
			break
		}
		switch {
		case !Known(word):
			s.problems = append(s.problems, fmt.Sprintf("%s: unknown id %q", where, word))
		case strings.HasPrefix(test, nowhere):
			s.problems = append(s.problems, fmt.Sprintf("%s: a \"proves\" line outside the doc comment of a test", where))
			return
		default:
			s.proofs[word] = append(s.proofs[word], test)
		}
	}
}

// nowhere stands for the test of a line that belongs to none.
const nowhere = "?"

func (s *scanner) goFile(root fs.FS, name string) error {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	docs := map[*ast.CommentGroup]string{}
	for _, decl := range tree.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && testName.MatchString(f.Name.Name) {
			s.tests[path.Dir(name)+"."+f.Name.Name] = true
			if f.Doc != nil {
				docs[f.Doc] = f.Name.Name
			}
		}
	}
	for _, group := range tree.Comments {
		test := nowhere
		if fn, ok := docs[group]; ok {
			test = path.Dir(name) + "." + fn
		}
		for _, c := range group.List {
			for _, line := range strings.Split(c.Text, "\n") {
				s.take(fset.Position(c.Pos()).String(), strings.TrimPrefix(line, "//"), test)
			}
		}
	}
	return nil
}

// script reads the lines of a .txtar before its first file.
func (s *scanner) script(root fs.FS, name string) error {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	s.tests[name] = true
	for n, line := range strings.Split(string(src), "\n") {
		if strings.HasPrefix(line, "-- ") {
			break
		}
		if rest, ok := strings.CutPrefix(line, "#"); ok {
			s.take(fmt.Sprintf("%s:%d", name, n+1), rest, name)
		}
	}
	return nil
}
