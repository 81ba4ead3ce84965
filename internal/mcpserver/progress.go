package mcpserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/glovebox-dev/glovebox"
)

// Bounds of what is told of a run on its way.
const (
	progressEvery = 500 * time.Millisecond
	maxChunk      = 2 << 10  // of output in one message
	maxShown      = 64 << 10 // of output in all messages of a run
)

// progress tells a client that asked for it how long its program has been running and
// what it wrote meanwhile. The run never waits for the client: what does not fit
// between two messages is left out, and the result has it anyway.
type progress struct {
	begin time.Time
	end   func()
	done  chan struct{}

	mu    sync.Mutex
	text  strings.Builder
	shown int
	lost  bool
}

// newProgress is nil for a call without a progress token.
func newProgress(ctx context.Context, req *mcp.CallToolRequest) *progress {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &progress{begin: time.Now(), end: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			message := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: time.Since(p.begin).Seconds(), Message: p.message()}
			if req.Session.NotifyProgress(ctx, message) != nil {
				return // nobody listens any more
			}
		}
	}()
	return p
}

// stop ends the messages; none is sent after it has returned.
func (p *progress) stop() {
	p.end()
	<-p.done
}

// event takes note of what a program wrote.
func (p *progress) event(e glovebox.Event) {
	if e.Type == "chunk" {
		p.write(e.Data)
	}
}

func (p *progress) write(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	room := min(maxChunk-p.text.Len(), maxShown-p.shown)
	if len(text) > room {
		text, p.lost = text[:max(room, 0)], true
		for len(text) > 0 && !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
	}
	p.text.WriteString(text)
	p.shown += len(text)
}

// message is one line of the host, and below it what the guest wrote since the last.
func (p *progress) message() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, lost := p.text.String(), p.lost
	p.text.Reset()
	p.lost = false
	line := fmt.Sprintf("running for %.1f s", time.Since(p.begin).Seconds())
	if lost {
		line += ", more output than is shown here"
	}
	if text == "" {
		return line
	}
	return line + "; untrusted output of the program: " + quoted(text)
}
