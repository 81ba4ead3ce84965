//go:build linux

package matrix

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// moduleSet finds the modules of a kernel by name. Debian's packages come
// without modules.dep, so the dependencies are read from the modules.
type moduleSet struct {
	dir     string
	paths   map[string]string
	builtin map[string]bool
	loaded  map[string]bool
	tree    *Tree
	order   []string // names in the initramfs, in loading order
}

// modulesAt is the folder of modules in the initramfs.
const modulesAt = "/modules"

func newModuleSet(k Kernel, tree *Tree) (*moduleSet, error) {
	s := &moduleSet{dir: k.Modules, paths: map[string]string{}, builtin: map[string]bool{}, loaded: map[string]bool{}, tree: tree}
	err := filepath.WalkDir(k.Modules, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(d.Name(), ".ko") {
			s.paths[moduleName(p)] = p
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(k.Modules, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		s.builtin[moduleName(strings.TrimSpace(line))] = true
	}
	return s, nil
}

// moduleName is a module's name from the path of its file.
func moduleName(p string) string {
	name, _, _ := strings.Cut(filepath.Base(p), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// has says whether the kernel has something as a module.
func (s *moduleSet) has(name string) bool {
	_, ok := s.paths[strings.ReplaceAll(name, "-", "_")]
	return ok
}

// add puts a module after those that it depends on. One that is built into the
// kernel needs nothing.
func (s *moduleSet) add(ctx context.Context, name string) error {
	name = strings.ReplaceAll(name, "-", "_")
	if s.loaded[name] || s.builtin[name] {
		return nil
	}
	s.loaded[name] = true
	p, ok := s.paths[name]
	if !ok {
		return fmt.Errorf("the kernel has no module %s", name)
	}
	data, err := readModule(ctx, p)
	if err != nil {
		return err
	}
	needs, err := dependsOn(data)
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	for _, n := range needs {
		if err := s.add(ctx, n); err != nil {
			return fmt.Errorf("%s needs %w", name, err)
		}
	}
	at := modulesAt + "/" + name + ".ko"
	s.tree.AddBytes(at, data, 0o644)
	s.order = append(s.order, at)
	return nil
}

// readModule reads a module's file, which may be compressed.
func readModule(ctx context.Context, p string) ([]byte, error) {
	tools := map[string][]string{".xz": {"xz", "-dc"}, ".zst": {"zstd", "-dcq"}, ".gz": {"gzip", "-dc"}}
	tool, ok := tools[filepath.Ext(p)]
	if !ok {
		return os.ReadFile(p)
	}
	out, err := exec.CommandContext(ctx, tool[0], append(tool[1:], p)...).Output()
	if err != nil {
		return nil, fmt.Errorf("unpack %s with %s: %w", p, tool[0], err)
	}
	return out, nil
}

// dependsOn is what the module says that it needs.
func dependsOn(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("there is no .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for field := range bytes.SplitSeq(info, []byte{0}) {
		if list, ok := bytes.CutPrefix(field, []byte("depends=")); ok && len(list) > 0 {
			return slices.DeleteFunc(strings.Split(string(list), ","), func(n string) bool { return n == "" }), nil
		}
	}
	return nil, nil
}
