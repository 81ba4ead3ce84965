package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/js"
)

// A host without an engine is told which package to install; one whose file does
// not say its release is told so.
//
// proves part of T-18
func TestEngineReport(t *testing.T) {
	none := engineReport{Error: "no JavaScriptCore library: install the package libjavascriptcoregtk-6.0-1\x1b[2J", Package: js.EnginePackage}
	if got := none.text(); got != "JavaScript: no JavaScriptCore library: install the package libjavascriptcoregtk-6.0-1^[[2J" {
		t.Error(got)
	}
	text, err := json.Marshal(statusReport{Engine: none})
	if err != nil || !strings.Contains(string(text), `"engine":{"found":false,"error":"no JavaScriptCore library`) || !strings.Contains(string(text), `"package":"libjavascriptcoregtk-6.0-1"}`) {
		t.Errorf("%s, %v", text, err)
	}
	odd := engineReport{Found: true, EngineFile: &js.EngineFile{API: "4.1", BuildID: "ab12"}}
	if got := odd.text(); got != "JavaScript: WebKitGTK of an unknown release (API 4.1), build id ab12" {
		t.Error(got)
	}
}
