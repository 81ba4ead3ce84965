//go:build !race

package agent

// bombLength is how many bytes a bomb has.
const bombLength = 16 << 20

// bitStep is how many bytes a test of each bit goes on by.
const bitStep = 1
