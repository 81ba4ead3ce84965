package cell

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// collectMS bounds init's work on the files it gives back, collectGrace what the
// host waits beyond that; together they are less than settleTime.
const (
	collectMS    = 1500
	collectGrace = 300 * time.Millisecond
)

// What init may report as refused.
const (
	maxRefused    = 102
	maxRefusedLen = 4 * (api.MaxNameParts * (api.MaxNamePart + 1)) // quoted
)

// wanted is what a job asks for.
func wanted(job *Job) cellproto.Collect {
	if len(job.Artifacts) == 0 {
		return cellproto.Collect{}
	}
	return cellproto.Collect{
		Place: cellproto.PlaceBox, Patterns: job.Artifacts, Bytes: api.MaxArtifactBytes,
		FileBytes: min(api.MaxArtifactBytes, uint64(job.Limits.FileBytes)), Files: api.MaxArtifacts, MS: collectMS,
	}
}

// gathering is what init sends of the files that were asked for. All of it is
// hostile: names, sizes, order, and how much there is.
type gathering struct {
	want    cellproto.Collect
	got     []api.Artifact
	refused []api.RefusedArtifact
	names   map[string]bool
	bytes   uint64        // that have come
	said    uint64        // that were announced, which room was made for
	open    *api.Artifact // some of it has come
}

// collect takes the files of a guest that has exited.
func (r *run) collect() {
	if len(r.want.Patterns) == 0 || r.end.exited == nil || r.end.denied != nil {
		return
	}
	r.counters() // what collecting costs is not the guest's doing, and no verdict on it
	r.counted = true
	g := &gathering{want: r.want, names: map[string]bool{}}
	_ = r.c.control.SetReadDeadline(time.Now().Add(time.Duration(r.want.MS)*time.Millisecond + collectGrace))
	stop := context.AfterFunc(r.ctx, func() { _ = r.c.control.SetReadDeadline(time.Now()) })
	defer stop()
	defer context.AfterFunc(r.h.ctx, func() { _ = r.c.control.SetReadDeadline(time.Now()) })()
	err := g.read(r.c.control)
	if err != nil {
		r.c.kill()
		switch {
		case r.ctx.Err() != nil:
			err = context.Cause(r.ctx)
		case r.h.ctx.Err() != nil:
			err = api.ErrClosed
		case r.starved():
			err = errStarved
		}
		r.lost = err
		g.got, g.refused = nil, append(g.refused, api.RefusedArtifact{Name: ".", Reason: "collecting failed: " + words(err.Error(), maxWords)})
	}
	slices.SortFunc(g.got, func(a, b api.Artifact) int { return strings.Compare(a.Name, b.Name) })
	r.result.Artifacts, r.result.RefusedArtifacts = g.got, g.refused
}

// errStarved is what the files of a guest come to that has left init no memory.
var errStarved = errors.New("no memory was left for it")

// starved tells whether the kernel has killed something in the cell for memory since
// the counters were read.
func (r *run) starved() bool {
	g, before := r.c.place.group, r.result.OOMKills
	if g == nil || before == nil {
		return false
	}
	now, err := g.Counters()
	return err == nil && now.OOMKills != nil && *now.OOMKills > *before
}

// read takes frames until there is no more. An honest init sends no piece that is
// not full but the last of each file.
func (g *gathering) read(init io.Reader) error {
	buf := make([]byte, 0, cellproto.MaxPieceFrame)
	for range g.want.Files + g.want.Bytes/cellproto.MaxPiece + maxRefused + 1 {
		t, p, err := cellproto.ReadFrameInto(init, cellproto.MaxPieceFrame, buf)
		if err != nil {
			return err
		}
		switch t {
		case cellproto.TypeArtifact:
			err = g.piece(p)
		case cellproto.TypeRefused:
			err = g.refusal(p)
		case cellproto.TypeCollected:
			if g.open != nil {
				return fmt.Errorf("%s is not whole", g.open.Name)
			}
			return nil
		default:
			err = errors.New("an unexpected frame")
		}
		if err != nil {
			return err
		}
	}
	return errors.New("init sends too much")
}

// piece takes some of a file.
func (g *gathering) piece(b []byte) error {
	p, err := cellproto.DecodePiece(b)
	if err != nil {
		return err
	}
	if g.open == nil {
		if err := g.begin(p); err != nil {
			return err
		}
	}
	a := g.open
	if g.bytes += uint64(len(p.Data)); p.Name != a.Name || g.bytes > g.want.Bytes || uint64(len(a.Content)+len(p.Data)) > g.want.FileBytes {
		return errors.New("more than was asked for")
	}
	a.Content = append(a.Content, p.Data...)
	if p.More {
		return nil
	}
	sum := sha256.Sum256(a.Content)
	a.Size, a.SHA256 = int64(len(a.Content)), hex.EncodeToString(sum[:])
	g.got, g.open = append(g.got, *a), nil
	return nil
}

// begin checks the name and mode of a new file.
func (g *gathering) begin(p *cellproto.Piece) error {
	if err := api.CheckFileName(p.Name); err != nil {
		return fmt.Errorf("a name %w", err)
	}
	asked := false
	for _, pattern := range g.want.Patterns {
		is, _ := api.MatchPattern(pattern, p.Name)
		asked = asked || is
	}
	switch {
	case !asked:
		return errors.New("a file that was not asked for")
	case g.names[p.Name]:
		return errors.New("a file twice")
	case p.Mode > 0o777:
		return fmt.Errorf("mode %#o", p.Mode)
	case p.Size > g.want.FileBytes || g.said+p.Size > g.want.Bytes:
		return errors.New("more than was asked for")
	case uint64(len(g.got)) >= g.want.Files:
		return errors.New("more files than were asked for")
	}
	g.names[p.Name] = true
	g.open = &api.Artifact{Name: p.Name, Mode: uint32(p.Mode), Content: make([]byte, 0, p.Size)}
	g.said += p.Size
	return nil
}

// refusal takes the reason of something not given. A file that was begun is none.
func (g *gathering) refusal(b []byte) error {
	v, err := cellproto.DecodeRefused(b)
	if err != nil {
		return err
	}
	if len(g.refused) >= maxRefused {
		return errors.New("too much is refused")
	}
	if g.open != nil {
		g.bytes -= uint64(len(g.open.Content))
		g.open = nil
	}
	name := words(v.Name, maxRefusedLen)
	if name != v.Name {
		name = strconv.QuoteToASCII(v.Name[:min(len(v.Name), maxRefusedLen)])
	}
	g.refused = append(g.refused, api.RefusedArtifact{Name: name, Reason: words(v.Reason, maxWords)})
	return nil
}
