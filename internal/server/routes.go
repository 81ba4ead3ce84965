package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/api"
)

// route is one method of one path. The OpenAPI document is made of these.
type route struct {
	method, path string
	handle       func(*Server, http.ResponseWriter, *request) error
	// body is what the body is decoded into, nil for a request without one.
	body func() any
	// streams says that a page of another origin must not even read it.
	streams bool
	// owner says that the owner's token is needed, operator that the operator's is.
	owner, operator bool
	// submits says that it takes programs.
	submits bool
	// open says that it is for everybody, also of a private installation.
	open bool
	doc  doc
}

// pattern is the route as http.ServeMux writes it.
func (r *route) pattern() string { return r.method + " " + r.path }

// Patterns are the patterns of all routes, and that of a request which has none.
func Patterns() []string {
	out := []string{noRoute}
	for _, r := range slices.Concat(routes(), pageRoutes()) {
		out = append(out, r.pattern())
	}
	return out
}

// noRoute is the pattern of a request that has none.
const noRoute = "none"

// doc is what the OpenAPI document says of a route.
type doc struct {
	id, summary, text string
	params            []param
	answers           map[int]any // by status: an example of the type, or nil for none
	media             string      // of the answers, if not JSON; several with ", " between
	// codes are refusals of this route beside those that follow from what it is.
	codes []api.Code
	// heads are headers of the answers, by status and name.
	heads map[int]map[string]string
	// sends and takes are examples of the messages to and from the client, of a stream.
	sends, takes any
}

// param is a parameter of the query or a header.
type param struct{ name, in, text string }

// routes are the interface; the pages are beside it.
func routes() []*route {
	return slices.Concat(runRoutes(), controlRoutes(), streamRoutes(), keyRoutes(), infoRoutes(), openapiRoutes())
}

// byID tells whether the path names something that may not exist.
func (rt *route) byID() bool { return strings.Contains(rt.path, "{") }
