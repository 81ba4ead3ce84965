package server

import (
	_ "embed"
	"net/http"

	"github.com/glovebox-dev/glovebox/api"
)

// document is the OpenAPI 3.1 description of the service. A test makes it of the route
// table and of the structs of package api with their comments, and fails when the file
// is another one; with -update it writes the file.
//
//go:embed openapi.json
var document []byte

func openapiRoutes() []*route {
	return []*route{
		{method: "GET", path: "/openapi.json", handle: (*Server).openapi, open: true, doc: doc{
			id: "getOpenAPI", summary: "This document", answers: map[int]any{200: map[string]any{}}}},
	}
}

func (s *Server) openapi(w http.ResponseWriter, _ *request) error {
	w.Header().Set("Content-Type", "application/json")
	return send(w, http.StatusOK, document)
}

// codes are the refusals that a route may answer with: those that follow from what it
// is, and those that its doc names.
func (rt *route) codes() []api.Code {
	codes := []api.Code{api.CodeBadRequest, api.CodeMediaType, api.CodeLength, api.CodeTooLarge, api.CodeMisdirected, api.CodeInternal}
	if rt.streams { // a HEAD
		codes = append(codes, api.CodeMethod)
	}
	if rt.method != http.MethodGet || rt.streams {
		codes = append(codes, api.CodeForbidden)
	}
	if !rt.open { // who asks is looked up
		codes = append(codes, api.CodeUnauthorized, api.CodeBusy, api.CodeStorage)
	}
	if rt.operator {
		codes = append(codes, api.CodeForbidden)
	}
	if rt.byID() {
		codes = append(codes, api.CodeNotFound)
	}
	if rt.owner {
		codes = append(codes, api.CodeUnauthorized, api.CodeForbidden)
	}
	if rt.body != nil {
		codes = append(codes, api.CodeBadField, api.CodeTimeout)
	}
	return append(codes, rt.doc.codes...)
}
