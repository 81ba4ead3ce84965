package api

import (
	"errors"
	"path"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzFileName asks for the grammar of names: what it accepts leads nowhere but below
// the folder, on one line, and is one name to every reader.
//
// proves part of T-13
func FuzzFileName(f *testing.F) {
	for _, s := range []string{"a", "a/b.txt", "../a", "a/../b", "a//b", "a/./b", "/a", "-a", "@a", "~", "a\\b", "a\x00b", "\xff", "a\u202eb", "é", strings.Repeat("a/", 16) + "a", strings.Repeat("x", 256)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := CheckFileName(name)
		if err != nil {
			if len(err.Error()) > 200 || !utf8.ValidString(err.Error()) {
				t.Fatalf("%q is refused with %q", name, err)
			}
			return
		}
		joined := path.Join("/box", name)
		if !strings.HasPrefix(joined, "/box/") || joined != "/box/"+name || len(name) > 16*256 || !utf8.ValidString(name) ||
			strings.ContainsFunc(name, unicode.IsControl) || strings.Contains("/"+name, "/-") {
			t.Fatalf("%q is accepted", name)
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if err := CheckFileName(dir); err != nil {
				t.Fatalf("%q is accepted, and its folder %q %v", name, dir, err)
			}
		}
		if is, _ := MatchPattern("**", name); !is {
			t.Fatalf("** does not stand for %q", name)
		}
	})
}

// FuzzPattern compares the matching of patterns with a slow and plain one, and looks at
// what a collector relies on: nothing is missed by not looking below.
func FuzzPattern(f *testing.F) {
	f.Add("a/**/b*", "a/x/y/bc")
	f.Add("**", "a")
	f.Add("[a-z]?/x", "bc/x")
	f.Add("a", "a/b/c")
	f.Add("**/**/a/**", "b/a")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if CheckPattern(pattern) != nil || CheckFileName(name) != nil || strings.Count(pattern, "**") > 4 {
			return
		}
		is, below := MatchPattern(pattern, name)
		if plain := plainMatch(strings.Split(pattern, "/"), strings.Split(name, "/")); plain != is {
			t.Fatalf("%q of %q: %v, by a plain matching %v", pattern, name, is, plain)
		}
		if is && !below {
			t.Fatalf("%q stands for %q, and not for what is below", pattern, name)
		}
		if dir := path.Dir(name); is && dir != "." {
			if _, below := MatchPattern(pattern, dir); !below {
				t.Fatalf("%q stands for %q, and nobody looks into %q", pattern, name, dir)
			}
		}
	})
}

// plainMatch follows the words of CheckPattern.
func plainMatch(pattern, name []string) bool {
	if len(pattern) == 0 {
		return true // it is, or lies below
	}
	if pattern[0] == "**" {
		return plainMatch(pattern[1:], name) || len(name) > 0 && plainMatch(pattern, name[1:])
	}
	if len(name) == 0 {
		return false
	}
	ok, _ := path.Match(pattern[0], name[0])
	return ok && plainMatch(pattern[1:], name[1:])
}

// FuzzLimits resolves any limits: the result is within floor and ceiling in every field,
// says the same again, and a refusal names a field that is in fact outside.
//
// proves part of T-13
func FuzzLimits(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0), int64(0), int64(0), int64(0), false)
	f.Add(int64(500), int64(500), int64(-1), int64(8<<20), int64(1<<62), int64(3), true)
	f.Add(int64(1<<50), int64(0), int64(0), int64(0), int64(0), int64(0), false)
	f.Add(int64(49), int64(1), int64(4096), int64(1<<40), int64(-1<<63), int64(1<<63-1), false)
	f.Fuzz(func(t *testing.T, wall, cpu, pids, memory, out, disk int64, compile bool) {
		l := Limits{WallMS: wall, CPUMS: cpu, Pids: pids, MemoryBytes: memory, StdoutBytes: out, DiskBytes: disk}
		max, def, got, err := MaxLimits(4, 8<<30), DefaultLimits(), Limits{}, error(nil)
		if compile {
			def = DefaultCompileLimits()
			got, err = Limits{Compile: &l}.ResolveCompile(def, max)
		} else {
			got, err = l.Resolve(def, max)
		}
		outside := ""
		for _, f := range limitFields {
			if v, lo, hi := *f.of(&l), f.floor, *f.of(&max); v != 0 && (v < lo || v > hi) && outside == "" {
				outside = f.name
			}
		}
		if err != nil {
			var field *FieldError
			if !errors.As(err, &field) || !strings.HasSuffix(field.Field, "."+outside) || outside == "" || strings.Contains(field.Field, "compile") != compile {
				t.Fatalf("%+v: %v, outside is %q", l, err, outside)
			}
			return
		}
		for _, f := range limitFields {
			v, given := *f.of(&got), *f.of(&l)
			if v < f.floor || v > *f.of(&max) || given != 0 && v != given || outside != "" {
				t.Fatalf("%s of %+v became %d", f.name, l, v)
			}
		}
		if again, err := got.Resolve(Limits{}, max); err != nil || again != got {
			t.Fatalf("%+v, again %+v: %v", got, again, err)
		}
		if low := max.Lower(got); got.CheckCeilings() == nil && low != got.Over(low) {
			t.Fatalf("ceilings lowered to %+v by %+v", low, got)
		}
	})
}
