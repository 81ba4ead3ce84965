package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/glovebox-dev/glovebox/internal/credential"
)

// On a service a command line does what it does on this host: the same scripts pass.
//
// proves part of X-04
func TestRemoteScriptsAsRoot(t *testing.T) {
	s := serve(t, "--in-flight", "64")
	p := scripts(serverVar + "=" + s.url)
	for _, name := range []string{"verdicts", "stream", "json", "input", "programs", "compile", "files", "artifacts"} {
		p.Files = append(p.Files, "testdata/script/"+name+".txtar")
	}
	testscript.Run(t, p)
}

// What is of a service alone: flags, refusals, keys.
//
// proves part of X-18
func TestServiceScripts(t *testing.T) {
	token := credential.Operator.New()
	file := filepath.Join(t.TempDir(), "operator")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--operator-token-file", file, "--in-flight", "64")
	p := scripts(serverVar+"="+s.url, "OPERATOR="+token)
	p.Dir = "testdata/remote"
	testscript.Run(t, p)
}
