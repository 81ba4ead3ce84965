//go:build !race

package journal

// many is how many records a test of many has.
const many = 1_000_000

// stride is 1: every bit and every length.
const stride = 1
