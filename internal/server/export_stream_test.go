package server

import (
	"context"
	"iter"
	"time"

	"github.com/glovebox-dev/glovebox/internal/queue"
)

// SetSource has streams take their events from somewhere else than the queue.
func SetSource(o *Options, f func(ctx context.Context, run string, after uint64) iter.Seq2[queue.Event, error]) {
	o.source = f
}

// SetHeartbeat has streams show signs of life so often.
func SetHeartbeat(o *Options, d time.Duration) { o.heartbeat = d }
