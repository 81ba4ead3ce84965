package strays

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// generatedFiles are examples of what packages' scripts make, at least one for each
// pattern.
var generatedFiles = []string{
	"/etc/ld.so.cache",
	"/etc/python3/debian_config",
	"/usr/lib/locale/locale-archive",
	"/usr/lib/modules/6.1.0-41-amd64/modules.dep",
	"/usr/lib/udev/hwdb.bin",
	"/usr/lib/x86_64-linux-gnu/gio/modules/giomodule.cache",
	"/usr/lib/x86_64-linux-gnu/gdk-pixbuf-2.0/2.10.0/loaders.cache",
	"/usr/lib/aarch64-linux-gnu/gtk-3.0/3.0.0/immodules.cache",
	"/usr/share/glib-2.0/schemas/gschemas.compiled",
	"/usr/share/icons/hicolor/icon-theme.cache",
	"/usr/share/fonts/X11/misc/fonts.dir", "/usr/share/fonts/X11/misc/fonts.scale", "/usr/share/fonts/X11/misc/fonts.alias",
	"/usr/share/applications/mimeinfo.cache",
	"/usr/share/info/dir",
	"/usr/share/mime/x-content/audio-cdda.xml",
	"/usr/share/mime/XMLnamespaces", "/usr/share/mime/aliases", "/usr/share/mime/generic-icons", "/usr/share/mime/globs",
	"/usr/share/mime/globs2", "/usr/share/mime/icons", "/usr/share/mime/magic", "/usr/share/mime/mime.cache",
	"/usr/share/mime/subclasses", "/usr/share/mime/treemagic", "/usr/share/mime/types", "/usr/share/mime/version",
	"/usr/share/p/__pycache__/owned.cpython-311.pyc",
	"/usr/share/p/__pycache__/owned.cpython-311.opt-1.pyc",
	"/usr/share/p/__pycache__/owned.pypy39.pyc",
	"/usr/share/p/__pycache__/dotted.name.cpython-311.pyc",
}

// leftFiles are their neighbours.
var leftFiles = []string{
	"/etc/ld.so.cache~",
	"/etc/python3/debian_config.old",
	"/usr/lib/locale/locale-archive.bak",
	"/usr/lib/modules/6.1.0-41-amd64/extra/modules.dep",
	"/usr/lib/modules/modules.dep",
	"/usr/lib/udev/hwdb",
	"/usr/lib/x86_64-linux-gnu/gio/modules/token",
	"/usr/share/glib-2.0/schemas/local.gschema.xml",
	"/usr/share/icons/hicolor/48x48/icon-theme.cache",
	"/usr/share/fonts/X11/misc/fonts.key",
	"/usr/share/mime/packages/local.xml",
	"/usr/share/mime/token",
	"/usr/share/mime/text/token",
	"/usr/share/p/__pycache__/token",
	"/usr/share/p/__pycache__/owned.pyc",
	"/usr/share/p/__pycache__/left.cpython-311.pyc", // whose source is somebody's own
	"/usr/share/p/__pycache__/gone.cpython-311.pyc",
	"/usr/share/p/__pycache__/sub/owned.cpython-311.pyc",
	"/usr/share/p/owned.cpython-311.pyc",
	"/usr/share/p/left.py",
}

// Files that scripts of packages generate are not found, and whatever lies beside
// them is. Every exception has an example and a reason.
func TestGenerated(t *testing.T) {
	h := newHost(t)
	h.lists("p", "/usr/share/p/owned.py", "/usr/share/p/dotted.name.py")
	h.file(0o644, "/usr/share/p/owned.py", "/usr/share/p/dotted.name.py")
	h.file(0o644, generatedFiles...)
	h.file(0o644, leftFiles...)
	got, err := find(t.Context(), h.root, []string{"/etc", "/usr/lib", "/usr/share"}, usual, nobody)
	want := slices.Sorted(slices.Values(leftFiles))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("found\n%s\n%v; want\n%s", strings.Join(got, "\n"), err, strings.Join(want, "\n"))
	}
	for _, e := range exceptions {
		if e.reason == "" {
			t.Errorf("%q have no reason", e.patterns)
		}
		for _, p := range e.patterns {
			used := slices.ContainsFunc(generatedFiles, func(f string) bool { ok, err := path.Match(p, f); return ok && err == nil })
			if !used {
				t.Errorf("%s has no example", p)
			}
		}
	}
}
