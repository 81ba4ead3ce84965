//go:build linux

package cgroup

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// entry is one line of /proc/<pid>/cgroup.
type entry struct {
	unified     bool
	key         string   // the second field as it stands
	controllers []string // of a v1 line; empty for v2 and for named trees
	path        string
}

// parseEntries reads /proc/<pid>/cgroup. Lines of an unknown form are an error: they
// would be evidence that is not understood.
func parseEntries(text string) ([]entry, error) {
	var out []entry
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 || !strings.HasPrefix(f[2], "/") {
			return nil, fmt.Errorf("cgroup: line %q is not understood", line)
		}
		if _, err := strconv.ParseUint(f[0], 10, 32); err != nil {
			return nil, fmt.Errorf("cgroup: line %q is not understood", line)
		}
		e := entry{key: f[1], path: f[2]}
		switch {
		case f[0] == "0" && f[1] == "":
			e.unified = true
		case !strings.HasPrefix(f[1], "name="):
			e.controllers = strings.Split(f[1], ",")
		}
		out = append(out, e)
	}
	return out, nil
}

// mount is one control group mount of /proc/self/mountinfo.
type mount struct {
	unified     bool
	root        string   // the group that the mount shows as its top
	point       string   // where it is mounted
	readOnly    bool     // by mount or by superblock
	controllers []string // v1: the controllers among the superblock's options
}

// parseMounts reads the control group mounts out of /proc/self/mountinfo. A later
// mount on the same point hides an earlier one.
func parseMounts(text string) []mount {
	var out []mount
	for line := range strings.Lines(text) {
		front, back, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		f, b := strings.Fields(front), strings.Fields(back)
		if !ok || len(f) < 6 || len(b) < 3 {
			continue
		}
		point := unescape(f[4])
		out = slices.DeleteFunc(out, func(m mount) bool { return hides(point, m.point) })
		if b[0] != "cgroup" && b[0] != "cgroup2" {
			continue
		}
		super := strings.Split(b[2], ",")
		m := mount{
			unified:  b[0] == "cgroup2",
			root:     unescape(f[3]),
			point:    point,
			readOnly: slices.Contains(strings.Split(f[5], ","), "ro") || slices.Contains(super, "ro"),
		}
		if !m.unified {
			m.controllers = super
		}
		out = append(out, m)
	}
	return out
}

// hides tells whether a new mount on point covers the older one at other.
func hides(point, other string) bool {
	return point == other || point == "/" || strings.HasPrefix(other, point+"/")
}

// unescape undoes the octal escapes of mountinfo (\040 is a space).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// below gives the part of a group's path beneath the mount's root ("" for the root
// itself). It is false if the mount does not show the group: another container's
// part of the tree, or a group outside this cgroup namespace ("/../other"), whose
// place cannot be told from the text.
func (m mount) below(group string) (string, bool) {
	rest := group
	if m.root != "/" {
		var ok bool
		if rest, ok = strings.CutPrefix(group, m.root); !ok || (rest != "" && rest[0] != '/') {
			return "", false
		}
	}
	rest = strings.Trim(rest, "/")
	if slices.Contains(strings.Split(rest, "/"), "..") {
		return "", false
	}
	return rest, true
}

// ancestors lists the group and everything above it that the mount shows, nearest
// first, as pairs of file system path and group path.
func (m mount) ancestors(group string) (dirs, groups []string) {
	rest, ok := m.below(group)
	if !ok {
		return nil, nil
	}
	for range maxDepth {
		dirs = append(dirs, path.Join(m.point, rest))
		groups = append(groups, joinGroup(m.root, rest))
		if rest == "" {
			break
		}
		if rest = path.Dir(rest); rest == "." {
			rest = ""
		}
	}
	return dirs, groups
}

// joinGroup appends to a group path without cleaning it: the "/.." of a namespace
// must stay.
func joinGroup(group, rest string) string {
	switch {
	case rest == "":
		return group
	case group == "/":
		return "/" + rest
	}
	return group + "/" + rest
}
