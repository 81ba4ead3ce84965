//go:build !race

package strictjson_test

import "time"

const (
	bombLength = 16 << 20
	bombTime   = 50 * time.Millisecond
)
