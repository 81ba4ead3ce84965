package redteam

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/glovebox-dev/glovebox/internal/cell"
)

// PrecompiledFolder is where, beside this file, a build with the tag
// redteam_precompiled finds compiled programs, NAME.gz each; see [Sources].
const PrecompiledFolder = "precompiled"

// maxProgram bounds an unpacked program.
const maxProgram = 16 << 20

// Source is a program of the battery in C.
type Source struct {
	// Name identifies the program by what it is compiled from.
	Name string
	// Arch is the only architecture that it is for, as Go names it; empty is any.
	Arch string
	// Entry is the file to compile, and Files are all its files by name.
	Entry string
	Files map[string][]byte
}

// Sources are the battery's programs in C. For a host without a compiler they
// can be compiled elsewhere, statically, and embedded: a program that is not of
// these, or whose text has changed since, is never looked at.
func Sources() ([]Source, error) {
	all, err := load()
	if err != nil {
		return nil, err
	}
	var out []Source
	seen := map[string]bool{}
	add := func(a *attack, files []file) error {
		b, err := sources(files)
		if err != nil {
			return err
		}
		s := Source{Name: nameOf(b.files), Arch: a.arch, Entry: files[0].name, Files: map[string][]byte{}}
		for _, f := range b.files {
			s.Files[f.Name] = f.Data
		}
		if !seen[s.Name] {
			out = append(out, s)
		}
		seen[s.Name] = true
		return nil
	}
	for _, a := range all {
		for _, files := range a.inC() {
			err = errors.Join(err, add(a, files))
		}
	}
	return out, err
}

// sources are a C program's files with those that all of them share.
func sources(files []file) (*built, error) {
	b := plain(files)
	return b, b.include("redteam.h")
}

// nameOf is a digest of the files' names and contents, the first one being the
// entry.
func nameOf(files []cell.File) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %d\n", f.Name, len(f.Data))
		h.Write(f.Data)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}

// precompiledProgram is the program that was compiled from these files before
// this one was built, or nil.
func precompiledProgram(files []cell.File) ([]byte, error) {
	packed, err := precompiled.ReadFile(PrecompiledFolder + "/" + nameOf(files) + ".gz")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	program, err := io.ReadAll(io.LimitReader(z, maxProgram+1))
	if err == nil && len(program) > maxProgram {
		err = fmt.Errorf("a precompiled program has more than %d bytes", maxProgram)
	}
	return program, err
}

// hasPrecompiled tells whether every program of an attack that is in C was
// compiled before.
func (a *attack) hasPrecompiled() bool {
	for _, files := range a.inC() {
		b, err := sources(files)
		if err != nil {
			return false
		}
		if _, err := fs.Stat(precompiled, PrecompiledFolder+"/"+nameOf(b.files)+".gz"); err != nil {
			return false
		}
	}
	return true
}

// inC are the programs of an attack that are in C, but for those that are the
// product's own compile step to take.
func (a *attack) inC() (out [][]file) {
	if a.language == "c" && !a.source {
		out = append(out, a.files)
	}
	if a.bystander != nil && languageOf(a.bystander.name) == "c" {
		out = append(out, []file{{a.bystander.name, a.bystander.data}})
	}
	return out
}
