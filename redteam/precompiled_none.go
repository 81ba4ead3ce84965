//go:build !redteam_precompiled

package redteam

import "embed"

// precompiled is empty: programs in C are compiled on the host that they are
// fired on.
var precompiled embed.FS
