package main

import (
	"errors"
	"fmt"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/termtext"
	"github.com/glovebox-dev/glovebox/js"
)

// statusReport is a status with the JavaScript engine of the host.
type statusReport struct {
	glovebox.Status
	Engine engineReport `json:"engine"`
}

// engineReport says which engine a worker would load, or why there is none.
type engineReport struct {
	Found bool `json:"found"`
	*js.EngineFile
	Error   string `json:"error,omitempty"`
	Package string `json:"package,omitempty"` // to install, on Debian
}

func findEngine() engineReport {
	f, err := js.FindEngine()
	if err != nil {
		r := engineReport{Error: err.Error(), Package: js.EnginePackage}
		if e := (*js.Error)(nil); errors.As(err, &e) {
			r.Error = e.Message
		}
		return r
	}
	return engineReport{Found: true, EngineFile: &f}
}

// text is one line.
func (r engineReport) text() string {
	if !r.Found {
		return termtext.String("JavaScript: " + r.Error)
	}
	release := "WebKitGTK of an unknown release"
	if r.Release != "" {
		release = "WebKitGTK " + r.Release
	}
	return termtext.String(fmt.Sprintf("JavaScript: %s (API %s), build id %s", release, r.API, r.BuildID))
}
