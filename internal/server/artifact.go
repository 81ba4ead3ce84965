package server

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/budget"
	"github.com/glovebox-dev/glovebox/internal/executor"
	"github.com/glovebox-dev/glovebox/internal/picture"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// decodeCost is the memory that decoding a picture may take: eight bytes a pixel.
const decodeCost = 8 * picture.MaxPixels

// artifact sends a file. It is a download of no type, unless it is a picture to its last
// byte, whatever it is called; and in either case from nowhere, so that nothing in it can
// run or ask for anything.
func (s *Server) artifact(w http.ResponseWriter, r *request) error {
	name := r.PathValue("name")
	data, err := s.o.Queue.Result(r.Context(), r.run)
	if errors.Is(err, queue.ErrRunning) {
		return refusal(api.CodeConflict, "the run has not ended")
	}
	if err != nil {
		return err
	}
	var result api.Result
	if err := strictjson.Decode(data, &result, strictjson.Options{MaxBytes: queue.MaxObject}); err != nil {
		return err
	}
	if !slices.ContainsFunc(result.Artifacts, func(a api.Artifact) bool { return a.Name == name }) {
		return refusal(api.CodeNotFound, "the run has no such artifact")
	}
	o, err := s.o.Queue.Runs().Get(r.Context(), r.run, executor.ArtifactObject(name))
	if err != nil {
		return err
	}
	if err := s.o.Admission.Egress(r.client, o.Size); err != nil {
		return err
	}
	if err := s.hold(r, o.Size); err != nil {
		return err
	}
	file, err := io.ReadAll(o)
	if err != nil {
		return err
	}
	kind, disposition := "application/octet-stream", "attachment"
	if picture.Begins(file) {
		if err := s.hold(r, decodeCost); err != nil {
			return err
		}
		pixels := int64(picture.MaxPixels)
		if proved, err := picture.Prove(file, &pixels); err == nil {
			kind, disposition = proved, "inline"
		}
	}
	head := w.Header()
	head.Set("Content-Type", kind)
	head.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	head.Set("Content-Disposition", disposition+"; filename*=UTF-8''"+rfc8187(name[strings.LastIndexByte(name, '/')+1:]))
	head.Set("ETag", `"`+o.SHA256+`"`)
	return send(w, http.StatusOK, file)
}

// hold takes memory for a request until it is answered.
func (s *Server) hold(r *request, bytes int64) error {
	room, err := s.o.Budget.Try(budget.Amount{Memory: bytes})
	if err != nil {
		e := refusal(api.CodeBusy, "the service has no memory for this file now")
		e.RetryAfterMS = 1000
		return e
	}
	r.release = append(r.release, room)
	return nil
}

// rfc8187 is a file's name as the value of a header's extended parameter; see RFC 8187.
func rfc8187(name string) string {
	const attr = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$&+-.^_`|~"
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(name) {
		if strings.IndexByte(attr, c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteString(string([]byte{'%', hex[c>>4], hex[c&15]}))
		}
	}
	return b.String()
}
