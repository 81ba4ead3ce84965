//go:build !race

package cellproto_test

const raceEnabled = false
