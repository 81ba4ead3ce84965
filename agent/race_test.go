//go:build race

package agent

// bombLength is how many bytes a bomb has. The race detector makes each dear.
const bombLength = 1 << 20

// bitStep is how many bytes a test of each bit goes on by.
const bitStep = 7
