package preflight

import "strings"

// Others are the names of the rule "absent".
func Others() []string { return strings.Fields(otherNames) }
