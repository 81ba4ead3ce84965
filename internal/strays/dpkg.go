package strays

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Where dpkg keeps what it knows, see dpkg-query(1) and dpkg-divert(1), and ucf(1),
// by which packages own files of /etc that they make at their installation.
const (
	listDir    = "/var/lib/dpkg/info"
	diversions = "/var/lib/dpkg/diversions"
	registry   = "/var/lib/ucf/registry"
)

// maxLine bounds a line of dpkg's, which is a path.
const maxLine = 16 << 10

// owned is what packages own on a host.
type owned struct {
	root  string
	names map[string]struct{}
	// real has folders of the lists, and where they are when links are followed.
	// Lists still say /bin where that has long been a link to /usr/bin, and a package
	// may reach its folder through a link of another's.
	real  map[string]string
	left  bounds
	moved map[string]diversion
}

// diversion says that a file which others than one package bring has another name.
type diversion struct{ to, by string }

func (o *owned) has(path string) bool {
	_, ok := o.names[path]
	return ok
}

// readOwned reads dpkg's lists below root.
func readOwned(ctx context.Context, root string, most bounds) (owned, error) {
	o := owned{root: root, names: map[string]struct{}{}, real: map[string]string{}, left: most, moved: map[string]diversion{}}
	entries, err := os.ReadDir(root + listDir)
	if err != nil && !gone(err) {
		return o, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return path.Ext(e.Name()) != ".list" })
	if len(entries) == 0 {
		return o, ErrUnknown
	}
	if err := o.readDiversions(ctx); err != nil {
		return o, err
	}
	err = o.lines(ctx, registry, func(line string) { // PACKAGE, white space, FILE
		if i := strings.IndexByte(line, '/'); i > 0 {
			o.add("", line[i:])
		}
	})
	if err != nil && !gone(err) {
		return o, err
	}
	for _, e := range entries {
		name, _, _ := strings.Cut(strings.TrimSuffix(e.Name(), ".list"), ":") // PACKAGE:ARCHITECTURE.list
		err := o.lines(ctx, listDir+"/"+e.Name(), func(line string) { o.add(name, line) })
		if err != nil && !gone(err) { // gone with its package
			return o, err
		}
	}
	return o, nil
}

// add notes a file of a package, under the name that it really has.
func (o *owned) add(name, file string) {
	if d, ok := o.moved[file]; ok && d.by != name {
		file = d.to
	}
	if !path.IsAbs(file) || path.Clean(file) != file || file == "/" { // "/." is in every list
		return
	}
	dir, base := path.Split(file)
	o.names[path.Join(o.follow(path.Clean(dir)), base)] = struct{}{}
}

// follow returns where a folder is when links are followed.
func (o *owned) follow(dir string) string {
	if real, ok := o.real[dir]; ok {
		return real
	}
	o.real[dir] = dir // links in a circle lead nowhere
	if dir == "/" {
		return dir
	}
	parent := o.follow(path.Dir(dir))
	real := path.Join(parent, path.Base(dir))
	if to, err := os.Readlink(o.root + real); err == nil {
		if !path.IsAbs(to) {
			to = parent + "/" + to
		}
		real = o.follow(path.Clean(to))
	}
	o.real[dir] = real
	return real
}

// readDiversions reads three lines for each: the name, the other name, and the
// package whose file keeps the name. That is ":" for none, when an administrator
// put one of his own there.
func (o *owned) readDiversions(ctx context.Context) error {
	var three []string
	err := o.lines(ctx, diversions, func(line string) {
		if three = append(three, line); len(three) == 3 {
			o.moved[three[0]] = diversion{to: three[1], by: three[2]}
			three = nil
		}
	})
	switch {
	case gone(err):
		return nil
	case err == nil && len(three) > 0:
		return fmt.Errorf("%s ends in the middle of an entry", diversions)
	}
	return err
}

// lines reads a file of dpkg's line by line.
func (o *owned) lines(ctx context.Context, file string, each func(string)) error {
	f, err := os.OpenFile(o.root+file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("%s is not a plain file", file), err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s := bufio.NewScanner(f)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		o.left.entries--
		o.left.bytes -= len(s.Bytes())
		switch {
		case o.left.entries < 0 || o.left.bytes < 0:
			return fmt.Errorf("%w: the lists of packages", ErrTooMany)
		case o.left.entries%4096 == 0 && ctx.Err() != nil:
			return ctx.Err()
		}
		each(s.Text())
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
