package telemetry_test

import (
	"maps"
	"slices"
)

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
