package server

import (
	"iter"
	"time"

	"github.com/glovebox-dev/glovebox/internal/queue"
)

// WrapSource has streams take the queue's events through something.
func WrapSource(o *Options, f func(iter.Seq2[queue.Event, error]) iter.Seq2[queue.Event, error]) {
	o.wrap = f
}

// SetHeartbeat has streams show signs of life so often.
func SetHeartbeat(o *Options, d time.Duration) { o.heartbeat = d }
