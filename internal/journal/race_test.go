//go:build race

package journal

// many is how many records a test of many has: the race detector makes each slow.
const many = 50_000
