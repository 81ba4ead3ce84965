package server

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/glovebox-dev/glovebox/api"
)

// Refuse answers every request on listeners with one refusal, and /healthz with 200,
// for a time in which there is no service. It reads no body and keeps no connection.
// What it returns ends that and closes the listeners.
func Refuse(listeners []net.Listener, config *tls.Config, conns int, e api.ServiceError) (end func()) {
	body, _ := json.Marshal(api.ErrorBody{Error: e}) // plain data
	var http1 http.Protocols
	http1.SetHTTP1(true)
	srv := &http.Server{Protocols: &http1, DisableGeneralOptionsHandler: true, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxHeaderBytes: maxHead,
		ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			if r.URL.Path == "/healthz" {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				_, _ = io.WriteString(w, "ok\n")
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", strconv.FormatInt((e.RetryAfterMS+999)/1000, 10))
			w.WriteHeader(e.Code.HTTPStatus())
			_, _ = w.Write(body)
		})}
	srv.SetKeepAlivesEnabled(false)
	for _, l := range listeners {
		l = newLimitListener(l, conns)
		if config != nil {
			l = tls.NewListener(l, config)
		}
		go func() { _ = srv.Serve(l) }()
	}
	return func() {
		_ = srv.Close()
		for _, l := range listeners {
			_ = l.Close()
		}
	}
}
