//go:build race

package strictjson_test

import "time"

// The detector makes every byte about ten times as dear.
const (
	bombLength = 1 << 20
	bombTime   = 500 * time.Millisecond
)
