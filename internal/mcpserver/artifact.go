package mcpserver

import (
	"container/list"
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// artifactPrefix begins the address of every artifact; 128 random bits and more
// follow, and no name of a guest.
const artifactPrefix = "glovebox://artifact/"

// maxArtifacts is how many are kept of one principal, whatever their size.
const maxArtifacts = 1000

type artifact struct {
	uri, name, mime, sha256 string
	data                    []byte
	until                   time.Time
}

// artifacts are those of one principal, the oldest in front. A principal has its own,
// so that an address that another one knows leads nowhere.
type artifacts struct {
	most int64
	ttl  time.Duration
	now  func() time.Time

	mu    sync.Mutex
	size  int64
	order *list.List
	byURI map[string]*list.Element
}

func (s *artifacts) init(most int64, ttl time.Duration) {
	s.most, s.ttl, s.now = most, ttl, time.Now
	s.order, s.byURI = list.New(), map[string]*list.Element{}
}

// put keeps an artifact and returns its address; false for one that has no room even
// alone. The bytes are not copied.
func (s *artifacts) put(a artifact) (uri string, ok bool) {
	n := int64(len(a.data))
	if n > s.most {
		return "", false
	}
	a.uri, a.until = artifactPrefix+rand.Text(), s.now().Add(s.ttl)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	for s.size+n > s.most || s.order.Len() >= maxArtifacts {
		s.drop(s.order.Front())
	}
	s.byURI[a.uri] = s.order.PushBack(&a)
	s.size += n
	return a.uri, true
}

func (s *artifacts) get(uri string) *artifact {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if e := s.byURI[uri]; e != nil {
		return e.Value.(*artifact)
	}
	return nil
}

// all are those that there are, the newest first.
func (s *artifacts) all() []*artifact {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	out := make([]*artifact, 0, s.order.Len())
	for e := s.order.Back(); e != nil; e = e.Prev() {
		out = append(out, e.Value.(*artifact))
	}
	return out
}

// expire drops what is too old. s.mu is held.
func (s *artifacts) expire() {
	for e := s.order.Front(); e != nil && s.now().After(e.Value.(*artifact).until); e = s.order.Front() {
		s.drop(e)
	}
}

func (s *artifacts) drop(e *list.Element) {
	a := s.order.Remove(e).(*artifact)
	delete(s.byURI, a.uri)
	s.size -= int64(len(a.data))
}

// readArtifact answers resources/read. Somebody else's artifact is not told from one
// that never was.
func (c *client) readArtifact(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	if req.Extra != nil && req.Extra.TokenInfo != nil && req.Extra.TokenInfo.UserID != c.principal.name {
		return nil, errNotYours
	}
	uri := req.Params.URI
	a := c.artifacts.get(uri)
	if a == nil {
		return nil, mcp.ResourceNotFoundError(artifactPrefix + "…")
	}
	r := &mcp.ResourceContents{URI: a.uri, MIMEType: a.mime, Meta: mcp.Meta{untrustedKey: true, "glovebox/name": a.name, "glovebox/sha256": a.sha256}}
	if strings.HasPrefix(a.mime, "text/") {
		r.Text = string(a.data)
	} else {
		r.Blob = a.data
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{r}}, nil
}

// listArtifacts answers resources/list with the principal's own.
func (c *client) listArtifacts(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method != "resources/list" {
			return next(ctx, method, req)
		}
		if r := req.GetExtra(); r != nil && r.TokenInfo != nil && r.TokenInfo.UserID != c.principal.name {
			return nil, errNotYours
		}
		res := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}}
		for _, a := range c.artifacts.all() {
			res.Resources = append(res.Resources, &mcp.Resource{URI: a.uri, Name: a.name, MIMEType: a.mime, Size: int64(len(a.data)), Meta: mcp.Meta{untrustedKey: true}})
		}
		return res, nil
	}
}
