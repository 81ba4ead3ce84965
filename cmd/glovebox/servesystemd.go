package main

import (
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notify tells the service manager, where there is one, see sd_notify(3).
func notify(state string) { _, _ = daemon.SdNotify(false, state) }

// newHeartbeat ticks when the service manager wants to hear that all is well, at half
// of the time after which it loses patience; without one never.
func newHeartbeat() *time.Ticker {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every < 2*time.Millisecond {
		t := time.NewTicker(time.Hour)
		t.Stop()
		return t
	}
	return time.NewTicker(every / 2)
}
