package cell

import "github.com/glovebox-dev/glovebox/internal/cellproto"

// Shown are the files and folders of the host that every cell shows at their own
// place: what packages have in /usr, and what of extra, see Config.Paths, exists.
// Devices are not among them. The paths have no link in them.
func Shown(extra []string) []string {
	var out []string
	for _, o := range newPlan(extra, nil).ops {
		if o.Kind == cellproto.OpBind {
			out = append(out, o.Source)
		}
	}
	return out
}
