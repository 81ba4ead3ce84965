//go:build race

package journal

// many is how many records a test of many has: the race detector makes each slow.
const many = 20_000

// stride leaves bits and lengths out of the tests of each: what they do does not
// depend on the detector.
const stride = 13
