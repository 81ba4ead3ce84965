package server

import (
	"net/http"
	"strings"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/web"
)

// pageRoutes are for people. They are no part of the interface, so that they have no doc,
// and they know nothing that is not on the web already: what a page shows it asks for
// by that interface.
func pageRoutes() []*route {
	return []*route{
		{method: "GET", path: "/{$}", handle: page("index", web.Page{Title: "Run code", Script: "app.js"}), open: true},
		{method: "GET", path: "/dashboard", handle: page("dashboard", web.Page{Title: "Dashboard", Script: "dashboard.js"}), open: true},
		{method: "GET", path: "/v1", handle: page("reference", web.Page{Title: "HTTP interface", Script: "reference.js"}), open: true},
		{method: "GET", path: "/assets/{asset}", handle: func(s *Server, w http.ResponseWriter, r *request) error { return s.asset(w, r, r.PathValue("asset")) }, open: true},
		{method: "GET", path: "/robots.txt", handle: func(s *Server, w http.ResponseWriter, r *request) error { return s.asset(w, r, "robots.txt") }, open: true},
		{method: "GET", path: "/favicon.ico", handle: func(s *Server, w http.ResponseWriter, r *request) error { return s.asset(w, r, "icon.svg") }, open: true},
	}
}

func page(name string, p web.Page) func(*Server, http.ResponseWriter, *request) error {
	return func(s *Server, w http.ResponseWriter, _ *request) error { return s.sendPage(w, http.StatusOK, name, p) }
}

func (s *Server) sendPage(w http.ResponseWriter, status int, name string, p web.Page) error {
	p.Version = s.o.Version
	body, err := s.o.Site.Render(name, p)
	if err != nil {
		return err
	}
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Content-Security-Policy", web.Policy)
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	return send(w, status, body)
}

func (s *Server) asset(w http.ResponseWriter, r *request, name string) error {
	a, ok := s.o.Site.Asset(name)
	if !ok {
		return refusal(api.CodeNotFound, "there is no such file")
	}
	head := w.Header()
	head.Set("Cache-Control", "no-cache") // it is asked for again, and not sent again
	head.Set("ETag", a.ETag)
	if r.Header.Get("If-None-Match") == a.ETag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	head.Set("Content-Type", a.Type)
	head.Set("Vary", "Accept-Encoding")
	if a.Gzip != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		head.Set("Content-Encoding", "gzip")
		return send(w, http.StatusOK, a.Gzip)
	}
	return send(w, http.StatusOK, a.Body)
}

// forPerson tells whether a browser asks for something that a person will look at.
func forPerson(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// headings are what a person is told first.
var headings = map[int]string{
	400: "That request cannot be understood", 401: "A key is needed", 403: "That is not allowed", 404: "Not found",
	405: "That is not how this is asked", 409: "Not now", 421: "This service is not called that", 429: "Too much at once", 503: "Not at the moment",
}

// refusePage says an error in words.
func (s *Server) refusePage(w http.ResponseWriter, e *api.ServiceError) error {
	heading, ok := headings[e.Code.HTTPStatus()]
	if !ok {
		heading = "That did not work"
	}
	text := strings.ToUpper(e.Message[:1]) + e.Message[1:] + "."
	return s.sendPage(w, e.Code.HTTPStatus(), "error", web.Page{Title: heading, Heading: heading, Text: text, RequestID: e.RequestID})
}
