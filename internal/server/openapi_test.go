package server

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

var update = flag.Bool("update", false, "write openapi.json")

// The document is what the route table and package api say, and is OpenAPI 3.1.
func TestOpenAPIDocument(t *testing.T) {
	made := makeDocument(t, routes())
	if *update && !t.Failed() {
		if err := os.WriteFile("openapi.json", made, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(made, document) {
		t.Error("openapi.json is stale: make ledger")
	}
	doc, err := openapi3.NewLoader().LoadFromData(made)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableMultiError()); err != nil {
		t.Error(err)
	}
	if !doc.IsOpenAPI31OrLater() {
		t.Error("not OpenAPI 3.1")
	}
}
