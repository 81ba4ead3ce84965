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
		access := rule.Access
		var st unix.Stat_t
		if err := unix.Stat(rule.Path, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			access &= landlock.OfFiles
		}
		if err := landlock.Allow(fd, rule.Path, access); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("rule for %s: %w", rule.Path, err)
		}
	}
	return fd, nil
}
