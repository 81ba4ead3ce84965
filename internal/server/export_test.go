package server

import (
	"net/http"
	"reflect"
	"runtime"
	"strings"
)

// Endpoint is what tests know of a route.
type Endpoint struct {
	Method, Path, Handler string
	Streams, Owner, Reads bool // Reads a body
	Answers               []int
}

// Pattern is how the log names it.
func (e Endpoint) Pattern() string { return e.Method + " " + e.Path }

// Endpoints are the routes of the interface.
func Endpoints() []Endpoint { return endpoints(routes()) }

// Everything is the interface and the pages beside it.
func Everything() []Endpoint { return endpoints(append(routes(), pageRoutes()...)) }

func endpoints(all []*route) (out []Endpoint) {
	for _, rt := range all {
		name := runtime.FuncForPC(reflect.ValueOf(rt.handle).Pointer()).Name()
		e := Endpoint{Method: rt.method, Path: rt.path, Handler: name[strings.LastIndexByte(name, '.')+1:], Streams: rt.streams, Owner: rt.owner, Reads: rt.body != nil}
		for status := range rt.doc.answers {
			e.Answers = append(e.Answers, status)
		}
		out = append(out, e)
	}
	return out
}

// Document is what /openapi.json says.
func Document() []byte { return document }

// Changes tells whether a request of the route may change something or streams.
func (e Endpoint) Changes() bool { return e.Method != http.MethodGet || e.Streams }
