//go:build !race

package journal

// many is how many records a test of many has.
const many = 1_000_000
