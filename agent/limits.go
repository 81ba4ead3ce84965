package agent

import (
	"fmt"

	"github.com/glovebox-dev/glovebox/js"
)

// Limits bound the sessions of a pool. Zero is the default of a field; what is
// below its floor or above its ceiling is refused by name. What a session has
// used up it never gets back, whatever crashes, is dumped, loaded or replayed.
type Limits struct {
	// Feeds a session may have. Default 10,000.
	Feeds int64 `json:"feeds"`
	// Calls of tools in a session, charged when they are admitted. Default 10,000.
	Calls int64 `json:"calls"`
	// MS of the guest's own time in a session. Default 600,000.
	MS int64 `json:"ms"`
	// Bytes of sources, inputs, arguments and answers in a session. Default 256 MiB.
	Bytes int64 `json:"bytes"`
	// FeedMS is the guest's own time of one feed, which ends it, and what it has left
	// in the guest. Default 5,000.
	FeedMS int64 `json:"feed_ms"`
	// FeedCalls are calls of tools in one feed. Default 1,000.
	FeedCalls int64 `json:"feed_calls"`
	// FeedWaitMS is how long the tools of one Feed, or those that a Resume runs, may
	// take all together. Default 300,000.
	FeedWaitMS int64 `json:"feed_wait_ms"`
	// InFlight are tools that run at one time in a session; further calls wait in
	// their order. Default 16.
	InFlight int64 `json:"in_flight"`
	// Waiting are calls without an answer at one time; one more throws in the guest.
	// Default 1,024.
	Waiting int64 `json:"waiting"`
	// Refused calls of a session. They cost nothing, but one more ends the feed.
	// Default 10,000.
	Refused int64 `json:"refused"`
	// PrintBytes is console text of one feed; the rest is cut. Default 1 MiB.
	PrintBytes int64 `json:"print_bytes"`
	// JournalBytes is the length of a session's journal; beyond it calls are refused
	// and feeds too, until it is compacted. Default 64 MiB.
	JournalBytes int64 `json:"journal_bytes"`
	// MaxPauseMS is how long a session keeps a worker while it waits for Resume or the
	// next feed; after that it gives it back, and replays when it goes on. Default
	// 600,000.
	MaxPauseMS int64 `json:"max_pause_ms"`
	// PerOwner is how many sessions of one owner may be out at one time. Default 100.
	PerOwner int64 `json:"per_owner"`
	// TTLMS is how long a session in a store lives after its last feed. Default 30
	// days.
	TTLMS int64 `json:"ttl_ms"`
	// MemoryBytes and BufferBytes are those of [js.Limits].
	MemoryBytes int64 `json:"memory_bytes"`
	BufferBytes int64 `json:"buffer_bytes"`
}

// replayFactor is how many times the time of a feed its replay may take: machines
// are not equally fast, nor equally busy.
const replayFactor = 10

const (
	mebi = 1 << 20
	hour = 3_600_000
)

// bound is one field with its place in the table.
type bound struct {
	name                string
	value               *int64
	def, floor, ceiling int64
}

func (l *Limits) table() []bound {
	return []bound{
		{"feeds", &l.Feeds, 10_000, 1, 1_000_000},
		{"calls", &l.Calls, 10_000, 1, 1_000_000},
		{"ms", &l.MS, 600_000, 1, 24 * hour},
		{"bytes", &l.Bytes, 256 * mebi, 1 << 10, 64 << 30},
		{"feed_ms", &l.FeedMS, 5_000, 1, hour / replayFactor},
		{"feed_calls", &l.FeedCalls, 1_000, 1, 1_000_000},
		{"feed_wait_ms", &l.FeedWaitMS, 300_000, 1, 24 * hour},
		{"in_flight", &l.InFlight, 16, 1, 1_024},
		{"waiting", &l.Waiting, 1_024, 1, 1 << 16},
		{"refused", &l.Refused, 10_000, 1, 1_000_000},
		{"print_bytes", &l.PrintBytes, mebi, 1, 64 * mebi},
		{"journal_bytes", &l.JournalBytes, 64 * mebi, 16 << 10, 1 << 30},
		{"per_owner", &l.PerOwner, 100, 1, 100_000},
		{"ttl_ms", &l.TTLMS, 30 * 24 * hour, 1, 3650 * 24 * hour},
		{"max_pause_ms", &l.MaxPauseMS, 600_000, 10, 24 * hour},
	}
}

// resolve fills in defaults and refuses what is out of bounds. The error is a
// *api.FieldError.
func (l Limits) resolve() (Limits, error) {
	for _, b := range l.table() {
		if *b.value == 0 {
			*b.value = b.def
		}
		if *b.value < b.floor || *b.value > b.ceiling {
			return l, fieldError("limits."+b.name, *b.value, "must be from %d to %d; 0 is the default, %d", b.floor, b.ceiling, b.def)
		}
	}
	return l, nil
}

// worker are the limits of the runtime of a session.
func (l *Limits) worker() js.Limits {
	return js.Limits{
		TimeoutMS: l.FeedMS * replayFactor, MemoryBytes: l.MemoryBytes, BufferBytes: l.BufferBytes,
		HostCalls: 1 << 40, InFlight: l.Waiting, ConsoleBytes: min(l.PrintBytes+64<<10, 64*mebi), // the rest is cut here, where it is said
	}
}

// Usage is what a session has used up so far.
type Usage struct {
	Feeds   int64 `json:"feeds"`
	Calls   int64 `json:"calls"` // of tools
	MS      int64 `json:"ms"`    // of the guest's own time, whole ones
	Bytes   int64 `json:"bytes"`
	Refused int64 `json:"refused"` // calls, which cost nothing
	Journal int64 `json:"journal"` // its length in bytes
}

// String says it in words.
func (u Usage) String() string {
	return fmt.Sprintf("%d feeds, %d calls, %d ms, %d bytes", u.Feeds, u.Calls, u.MS, u.Bytes)
}
