package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/executor"
	"github.com/glovebox-dev/glovebox/internal/picture"
	"github.com/glovebox-dev/glovebox/internal/queue"
)

// decodeCost is the memory that decoding a picture may take: eight bytes a pixel.
const decodeCost = 8 * picture.MaxPixels

// artifact sends a file. It is a download of no type, unless it is a picture to its last
// byte, whatever it is called; and in either case from nowhere, so that nothing in it can
// run or ask for anything.
func (s *Server) artifact(w http.ResponseWriter, r *request) error {
	name := r.PathValue("name")
	st, err := s.o.Queue.Status(r.Context(), r.run)
	if err != nil {
		return err
	}
	if st.State != queue.Finished {
		return refusal(api.CodeConflict, "the run has not ended")
	}
	o, err := s.o.Queue.Runs().Get(r.Context(), r.run, executor.ArtifactObject(name))
	if errors.Is(err, queue.ErrNotFound) || errors.Is(err, queue.ErrName) {
		return refusal(api.CodeNotFound, "the run has no such artifact")
	}
	if err != nil {
		return err
	}
	if err := s.o.Admission.Egress(r.client, o.Size); err != nil {
		return err
	}
	front := make([]byte, min(o.Size, 64))
	if _, err := io.ReadFull(o, front); err != nil {
		return err
	}
	kind, disposition := "application/octet-stream", "attachment"
	proved, known := s.proofs.of(o.SHA256)
	if !known && picture.Begins(front) && s.hold(r, o.Size+decodeCost) { // else it is a download
		rest, err := io.ReadAll(o)
		if err != nil {
			return err
		}
		front = append(front, rest...)
		pixels := int64(picture.MaxPixels)
		proved, err = picture.Prove(front, &pixels)
		if err != nil {
			proved = ""
		}
		s.proofs.keep(o.SHA256, proved)
	}
	if proved != "" {
		kind, disposition = proved, "inline"
	}
	head := w.Header()
	head.Set("Content-Type", kind)
	head.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	head.Set("Content-Disposition", disposition+"; filename*=UTF-8''"+rfc8187(name[strings.LastIndexByte(name, '/')+1:]))
	head.Set("ETag", `"`+o.SHA256+`"`)
	return sendLong(w, r, http.StatusOK, o.Size-int64(len(front)), front, o, nil)
}

// proofs are the kinds of pictures that were decoded, by their hashes, so that who asks
// for one again and again has it decoded once.
type proofs struct {
	mu    sync.Mutex
	kinds map[string]string // "" for what is none
}

const maxProofs = 8192

func (p *proofs) of(sum string) (kind string, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kind, known = p.kinds[sum]
	return kind, known
}

func (p *proofs) keep(sum, kind string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kinds == nil || len(p.kinds) >= maxProofs {
		p.kinds = map[string]string{}
	}
	p.kinds[sum] = kind
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
