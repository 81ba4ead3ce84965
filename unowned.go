package glovebox

import (
	"context"

	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/strays"
)

// ErrPackagesUnknown says that this host has no list of what its packages own that
// [UnownedFiles] could read: it is not one of dpkg's.
var ErrPackagesUnknown = strays.ErrUnknown

// UnownedFiles lists the files of the host that programs of a Box with these options
// can read and that no package put there, in order of name: what somebody left in
// /usr/share, and all of a language that was installed without a package. Whoever
// runs strangers' programs wants no secret among them. No cell is made, and none is
// an empty list. It takes a second or two. The names may hold any byte.
//
// What packages' scripts generate (byte code of Python with its source, indexes) is
// left out, and so are the caches that [Box.Warm] filled and the folders of
// [WithFolder]. A package's file counts as the package's whatever was written into it.
// For an ordinary user a file counts if that user can read it, since his programs can.
//
// The error wraps [ErrPackagesUnknown] where there is no list of packages, and the
// context's error; it is a *[FieldError] for bad options. A folder that cannot be
// read, and more than two million files, are errors too: there is no shorter list.
func UnownedFiles(ctx context.Context, o Options) ([]string, error) {
	_, cfg, err := o.unopened()
	if err != nil {
		return nil, err
	}
	return strays.Find(ctx, "/", cell.Shown(cfg.Paths))
}
