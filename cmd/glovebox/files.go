package main

import (
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// maxFile bounds what is read of one file or folder; the library bounds all
// files of a program together.
const maxFile = 8 << 20

// sent is a file for the cell, and the path on this host that it came from, as
// the caller wrote it.
type sent struct {
	path string
	file glovebox.File
}

// further adds the files of --file. The program's own file may be among them: it
// is then run where they put it, beside its neighbours.
func (f *runFlags) further(p *glovebox.Program) error {
	var all []sent
	for _, written := range f.files {
		more, err := readPlaced(written)
		if err != nil {
			return usagef("--file %s", err)
		}
		all = append(all, more...)
	}
	own := -1
	for i, s := range all {
		if own < 0 && f.entryPath != "" && absolute(s.path) == f.entryPath {
			own, p.Files[0] = i, s.file
		}
	}
	from := map[string]string{}
	for _, have := range p.Files {
		from[have.Name] = "the program itself"
	}
	for i, s := range all {
		if i == own {
			continue
		}
		if other, twice := from[s.file.Name]; twice {
			return usagef("--file %s: would be /box/%s, and so is %s", s.path, s.file.Name, other)
		}
		from[s.file.Name] = s.path
		p.Files = append(p.Files, s.file)
	}
	return nil
}

// readPlaced reads what a --file names, PATH[:AT]: a file, or all of a folder.
// Without AT it lies in /box under the last part of its path; what is in the
// working directory, ".", lies in /box itself.
func readPlaced(written string) ([]sent, error) {
	host, at, err := cutPlace(written)
	if err != nil {
		return nil, err
	}
	st, err := os.Stat(host)
	isDir := err == nil && st.IsDir()
	name := strings.Trim(at, "/")
	switch base := filepath.Base(host); {
	case host == "":
		return nil, usagef("%q: must be PATH or PATH:AT", written)
	case at == "" && base == "." && isDir: // its files lie in /box itself
	case at == "", !isDir && strings.HasSuffix(at, "/"):
		name = path.Join(name, base)
	}
	if name != "" {
		if err := api.CheckFileName(name); err != nil {
			return nil, usagef("%s: its name %s", written, err)
		}
	}
	if isDir {
		return readFolder(host, name)
	}
	one, _, err := readFile(host)
	if err != nil {
		return nil, err
	}
	one.Name = name
	return []sent{{host, one}}, nil
}

// cutPlace cuts PATH:AT. A colon is the path's own unless a slash follows the
// last one; AT is returned relative to /box, "/" for the folder itself.
func cutPlace(written string) (host, at string, err error) {
	i := strings.LastIndexByte(written, ':')
	if i < 0 || !strings.HasPrefix(written[i+1:], "/") {
		return written, "", nil
	}
	rest, ok := strings.CutPrefix(written[i+1:]+"/", "/box/")
	if i == 0 || !ok {
		return "", "", usagef("%s: must be PATH or PATH:AT, where AT is /box or a place below it", written)
	}
	return written[:i], "/" + strings.TrimSuffix(rest, "/"), nil // less the slash that was added
}

// readFolder reads the files below a folder, but for names that begin with a dot:
// such are the records of tools, and secrets. A link is refused, since it could
// lead to what nobody meant to give away.
func readFolder(folder, name string) ([]sent, error) {
	var found []sent
	left := int64(maxFile)
	err := filepath.WalkDir(folder+"/.", func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return usagef("%s: %s", at, cause(err))
		}
		rel, err := filepath.Rel(folder, at)
		switch {
		case err != nil || rel == ".":
			return err
		case strings.HasPrefix(d.Name(), ".") && d.IsDir():
			return fs.SkipDir
		case strings.HasPrefix(d.Name(), "."), d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return usagef("%s: is no plain file; give the others by their names", at)
		case len(found) == api.MaxFiles:
			return usagef("%s: must have at most %d files", folder, api.MaxFiles)
		}
		inCell := path.Join(name, filepath.ToSlash(rel))
		if err := api.CheckFileName(inCell); err != nil {
			return usagef("%s: its name %s", at, err)
		}
		one, text, err := readFile(at)
		if err != nil {
			return err
		}
		if left -= int64(len(text)); left < 0 {
			return usagef("%s: its files must have at most %s together", folder, size.format(maxFile, " "))
		}
		one.Name = inCell
		found = append(found, sent{at, one})
		return nil
	})
	if err == nil && len(found) == 0 {
		err = usagef("%s: has no files, or only such whose names begin with a dot", folder)
	}
	return found, err
}

func absolute(host string) string {
	if abs, err := filepath.Abs(host); err == nil {
		return abs
	}
	return host
}

// readFile reads a file of the caller. It lies in /box under the last part of
// its path. The error is a usageError that begins with the path.
func readFile(path string) (glovebox.File, []byte, error) {
	if path == "" {
		return glovebox.File{}, nil, usagef("FILE is empty")
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return glovebox.File{}, nil, usagef("%s: is a directory", path)
	}
	name := filepath.Base(path)
	if err := api.CheckFileName(name); err != nil {
		return glovebox.File{}, nil, usagef("%s: its name %s", path, err)
	}
	in, err := os.Open(path)
	if err != nil {
		return glovebox.File{}, nil, usagef("%s: %s", path, cause(err))
	}
	defer in.Close()
	mode := uint32(0o644)
	if st, err := in.Stat(); err == nil {
		if st.Mode()&0o100 != 0 {
			mode = 0o755
		}
	}
	text, err := readAll(path, in)
	if err != nil {
		return glovebox.File{}, nil, err
	}
	return file(name, mode, text), text, nil
}

func readAll(name string, in io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, usagef("%s: %s", name, cause(err))
	}
	if len(text) > maxFile {
		return nil, usagef("%s: must have at most %s", name, size.format(maxFile, " "))
	}
	return text, nil
}

// cause is the reason of a file's error without the names it repeats.
func cause(err error) string {
	for p := (*fs.PathError)(nil); errors.As(err, &p); {
		err = p.Err
	}
	return err.Error()
}

func file(name string, mode uint32, text []byte) glovebox.File {
	f := glovebox.File{Name: name, Mode: mode, Content: string(text)}
	if !utf8.Valid(text) {
		f.Content, f.Encoding = base64.StdEncoding.EncodeToString(text), "base64"
	}
	return f
}
