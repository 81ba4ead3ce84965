package cellinit

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
	"github.com/glovebox-dev/glovebox/internal/landlock"
)

// ruleset makes a ruleset of paths in the cell's root.
func ruleset(l *cellproto.Landlock) (int, error) {
	fd, err := landlock.Create(l.HandledFS, l.HandledNet, l.Scoped)
	if err != nil {
		return -1, err
	}
	for _, rule := range l.Rules {
		if err := landlock.Allow(fd, rule.Path, rule.Access); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("rule for %s: %w", rule.Path, err)
		}
	}
	return fd, nil
}
