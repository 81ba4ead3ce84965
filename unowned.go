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
// runs strangers' programs wants no secret among them. No cell is made.
//
// What packages' scripts generate (byte code of Python with its source, indexes) is
// left out, and so are the caches that [Box.Warm] filled and the folders of
// [WithFolder]. For an ordinary user a file counts if that user can read it, since
// his programs can. At most two million files are looked at; beyond that there is an
// error and no list. It takes seconds on a large host. The names are the host's and
// may hold any byte.
//
// The error wraps [ErrPackagesUnknown] where there is no list of packages, and the
// context's error; it is a *[FieldError] for bad options.
func UnownedFiles(ctx context.Context, o Options) ([]string, error) {
	_, cfg, err := o.unopened()
	if err != nil {
		return nil, err
	}
	return strays.Find(ctx, "/", cell.Shown(cfg.Paths))
}
