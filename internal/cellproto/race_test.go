//go:build race

package cellproto_test

const raceEnabled = true
