package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/termtext"
)

// maxPlaces bounds the lines that files without a package take.
const maxPlaces = 20

// unownedReport is a status with the files that belong to no package, null when they
// are not known.
type unownedReport struct {
	statusReport
	UnownedFiles []string `json:"unowned_files"`
}

// unowned is what became of the search for such files.
type unowned struct {
	files   []string
	unknown error // why there is no answer
}

// findUnowned searches, and fails only if it is interrupted.
func findUnowned(ctx context.Context, o glovebox.Options) (found unowned, err error) {
	ctx, stop := interruptible(ctx)
	defer stop()
	found.files, found.unknown = glovebox.UnownedFiles(ctx, o)
	if ctx.Err() != nil {
		return found, context.Cause(ctx)
	}
	return found, nil
}

// text says in lines how many files there are and where, or why that is not known.
func (u unowned) text() string {
	if u.unknown != nil {
		return termtext.String("which files that programs can read belong to no package is not known: "+u.unknown.Error()) + "\n"
	}
	var b strings.Builder
	if len(u.files) == 1 {
		b.WriteString("1 file that programs can read belongs to no package\n")
	} else {
		fmt.Fprintf(&b, "%d files that programs can read belong to no package\n", len(u.files))
	}
	for _, p := range fold(u.files, maxPlaces) {
		b.WriteString("  " + termtext.String(p.path))
		if n := len(p.files); n > 1 {
			fmt.Fprintf(&b, "/ (%d)", n)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// place is a file, or a folder with the files below it.
type place struct {
	path  string
	files []string
}

// fold says in at most so many places where the files are, which are sorted paths:
// each by itself if there are few, else some as the folder that they lie in. Again and
// again the folder gives way to what is in it that costs the fewest places, so that a
// file that lies alone is named and a tree of thousands is one place.
func fold(files []string, most int) []place {
	switch len(files) {
	case 0:
		return nil
	case 1:
		return []place{{files[0], files}}
	}
	places := []place{{files: files}}
	for {
		best, into := -1, []place(nil)
		for i, p := range places {
			if len(p.files) == 1 {
				continue
			}
			in := p.within(min(most-len(places)+1, most))
			if in != nil && (best < 0 || len(in) < len(into)) {
				best, into = i, in
			}
		}
		if best < 0 {
			return places
		}
		places = slices.Replace(places, best, best+1, into...)
	}
}

// within are the places directly in a folder, none if they are more than so many.
func (p place) within(most int) []place {
	var in []place
	for rest := p.files; len(rest) > 0; {
		if len(in) == most {
			return nil
		}
		name, _, deeper := strings.Cut(rest[0][len(p.path)+1:], "/")
		path := p.path + "/" + name
		n := 1
		if deeper {
			for n < len(rest) && strings.HasPrefix(rest[n], path+"/") {
				n++
			}
		}
		if n == 1 {
			path = rest[0]
		}
		in = append(in, place{path, rest[:n]})
		rest = rest[n:]
	}
	return in
}
