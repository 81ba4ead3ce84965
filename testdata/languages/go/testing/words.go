// Package words counts words.
package words

import "strings"

// Count returns the number of words.
func Count(s string) int { return len(strings.Fields(s)) }
