//go:build redteam_precompiled

package redteam

import "embed"

// precompiled are programs of the battery in C that whoever built this compiled
// before.
//
//go:embed precompiled/*.gz
var precompiled embed.FS
