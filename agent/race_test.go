//go:build race

package agent

// bombLength is how many bytes a bomb has. The race detector makes each dear.
const bombLength = 1 << 20
