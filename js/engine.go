package js

import (
	"strings"

	"github.com/glovebox-dev/glovebox/internal/jsc/library"
)

// EnginePackage is the Debian package of the engine that is preferred; the
// libraries 4.1 and 4.0, of older systems, are taken too.
const EnginePackage = library.Package

// EngineFile is the engine as it lies on this host. The zero value is none.
type EngineFile struct {
	Path string `json:"path"` // of the library, without symbolic links
	// API is the library's line, "6.0", "4.1" or "4.0", which says nothing of its age.
	API string `json:"api"`
	// Release is that of WebKitGTK, such as "2.50.6", "" if the file does not say it.
	Release string `json:"release,omitempty"`
	BuildID string `json:"build_id"` // hexadecimal; a worker proves that it has this one
}

// FindEngine looks for the engine that a runtime would use, and reads which it
// is. No worker is started and the engine is not loaded; it takes a few
// milliseconds. The error is an *Error of kind EngineMissing: there is none, and
// the message names the package to install, or its file is not to be trusted.
func FindEngine() (EngineFile, error) {
	l, err := library.Find()
	if err != nil {
		return EngineFile{}, &Error{Kind: EngineMissing, Message: err.Error(), Err: err}
	}
	f := EngineFile{Path: l.Path, BuildID: l.BuildID}
	f.API, _, _ = strings.Cut(l.Version, " ")
	f.Release, _ = library.Release(l.Path) // an engine without it works
	return f, nil
}
