package server

import (
	"net/http"
	"strings"
)

// What pages of an origin that the operator allows may say and read (CORS). Nothing
// is ever allowed to all origins, and no page may send credentials of the browser.
var (
	corsRequest = strings.Join([]string{"Authorization", "Content-Type", IdempotencyHeader, OwnerHeader, LastEventHeader}, ", ")
	corsAnswer  = "ETag, Glovebox-Request-Id, Location, Retry-After"
)

const corsMaxAge = "600" // seconds that a browser may remember a preflight

// cors tells a page of an allowed origin that it may read the answer, whatever it is.
func (s *Server) cors(w http.ResponseWriter, r *http.Request) (allowed bool) {
	if len(s.names.origins) == 0 {
		return false
	}
	w.Header().Add("Vary", "Origin")
	origins := r.Header.Values("Origin")
	if len(origins) != 1 || !s.names.origins[lower(origins[0])] {
		return false
	}
	w.Header().Set("Access-Control-Allow-Origin", lower(origins[0]))
	w.Header().Set("Access-Control-Expose-Headers", corsAnswer)
	return true
}

// preflight answers the question of a browser before a request of such a page, if it
// is one about a route.
func (s *Server) preflight(w http.ResponseWriter, r *http.Request) bool {
	methods := r.Header.Values("Access-Control-Request-Method")
	if r.Method != http.MethodOptions || len(methods) != 1 || r.ContentLength != 0 {
		return false
	}
	asked := r.Clone(r.Context())
	asked.Method = methods[0]
	if _, pattern := s.mux.Handler(asked); pattern == "" {
		return false
	}
	head := w.Header()
	head.Set("Access-Control-Allow-Methods", methods[0])
	head.Set("Access-Control-Allow-Headers", corsRequest)
	head.Set("Access-Control-Max-Age", corsMaxAge)
	head.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	w.WriteHeader(http.StatusNoContent)
	return true
}
