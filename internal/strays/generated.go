package strays

import (
	"path"
	"regexp"
)

// exception is files that scripts of packages write from what packages contain. No
// list has them, and they hold nothing of the host but what is installed.
type exception struct {
	patterns []string // of path.Match, from "/" on
	reason   string
}

// exceptions are few on purpose, and name files rather than folders: a file that
// somebody left beside them is found. Byte code of Python is one more, see
// generated.
var exceptions = []exception{
	{[]string{"/etc/ld.so.cache"}, "ldconfig's index of libraries"},
	{[]string{"/etc/python3/debian_config"}, "which byte code python3's scripts make"},
	{[]string{"/usr/lib/locale/locale-archive"}, "locale-gen's locales"},
	{[]string{"/usr/lib/modules/*/modules.*"}, "depmod's indexes of kernel modules"},
	{[]string{"/usr/lib/udev/hwdb.bin"}, "systemd-hwdb's index of its descriptions of hardware"},
	{[]string{"/usr/lib/*/gio/modules/giomodule.cache", "/usr/lib/*/gdk-pixbuf-2.0/*/loaders.cache", "/usr/lib/*/gtk-*/*/immodules.cache"},
		"GLib's, GdkPixbuf's and GTK's indexes of their plugins"},
	{[]string{"/usr/share/glib-2.0/schemas/gschemas.compiled"}, "glib-compile-schemas' union of the schemas beside it"},
	{[]string{"/usr/share/icons/*/icon-theme.cache"}, "gtk-update-icon-cache's index of icons"},
	{[]string{"/usr/share/fonts/X11/*/fonts.dir", "/usr/share/fonts/X11/*/fonts.scale", "/usr/share/fonts/X11/*/fonts.alias"}, "update-fonts-dir's indexes of fonts"},
	{[]string{"/usr/share/applications/mimeinfo.cache"}, "update-desktop-database's index of applications"},
	{[]string{"/usr/share/info/dir"}, "install-info's table of contents"},
	{[]string{"/usr/share/mime/[^p]*/*.xml", "/usr/share/mime/XMLnamespaces", "/usr/share/mime/aliases", "/usr/share/mime/generic-icons",
		"/usr/share/mime/globs", "/usr/share/mime/globs2", "/usr/share/mime/icons", "/usr/share/mime/magic", "/usr/share/mime/mime.cache",
		"/usr/share/mime/subclasses", "/usr/share/mime/treemagic", "/usr/share/mime/types", "/usr/share/mime/version"},
		"update-mime-database's types, from the packages' in the folder packages"},
}

// byteCode is the name of a file in __pycache__; its first part is the module's.
var byteCode = regexp.MustCompile(`^(.+?)\.[a-z]+-?[0-9]+(\.opt-[0-9a-z]+)?\.pyc$`)

// generated tells whether a script of a package made the file from something that a
// package owns. Byte code of Python must have its source where it was: it can hold
// all that a source of somebody's own does.
func (o *owned) generated(file string) bool {
	dir, name := path.Split(file)
	if path.Base(dir) == "__pycache__" {
		m := byteCode.FindStringSubmatch(name)
		return m != nil && o.has(path.Join(path.Dir(path.Clean(dir)), m[1]+".py"))
	}
	for _, e := range exceptions {
		for _, p := range e.patterns {
			if ok, _ := path.Match(p, file); ok {
				return true
			}
		}
	}
	return false
}
