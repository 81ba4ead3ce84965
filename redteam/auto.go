package redteam

// nproc, samples and otherLimits are what bounds a cell under "auto" on a host
// without control groups, or with a core limit that is not what it must be.
const (
	nproc       = "RLIMIT_NPROC still stops it"
	samples     = "samples of memory end it, unless it is faster"
	otherLimits = "only the limit of cores is missing there"
)

// standIns are attacks that one layer alone stops and that "auto" does not simply
// let go on a host without the layer: something stands in for it. A control
// leaves that out as well.
var standIns = map[string]string{
	"exhaustion/daemons": nproc, "exhaustion/processes": nproc, "exhaustion/threads": nproc, "compile/children-of-compiler": nproc,
	"memory/heap": samples, "memory/many-processes": samples,
}

// StandIn says what bounds an attack, GROUP/NAME, under "auto" on a host without
// the one layer that stops it. It is empty where nothing does, and for attacks that
// several layers stop or that do not exist.
func StandIn(attack string) string {
	all, err := load()
	if err != nil {
		return ""
	}
	for _, a := range all {
		switch {
		case a.id() != attack || len(a.layers) != 1:
		case a.layers[0] == "rlimits":
			return otherLimits
		default:
			return standIns[attack]
		}
	}
	return ""
}
