//go:build !race

package agent

// bombLength is how many bytes a bomb has.
const bombLength = 16 << 20
