package cellproto

// LaunchType is the first byte of a message between a host and its launcher.
// They travel on a SOCK_SEQPACKET socket, one message a packet, descriptors
// beside it.
type LaunchType byte

// Messages of the launcher's socket.
const (
	// LaunchPrepare makes a slot: a thread of its own, placed in the groups whose
	// descriptors come along, in new network, IPC and UTS namespaces.
	LaunchPrepare LaunchType = 1
	// LaunchStart starts init from a prepared slot. Descriptors: control socket,
	// stdin, stdout, stderr.
	LaunchStart LaunchType = 2
	// LaunchDrop gives a prepared slot up.
	LaunchDrop LaunchType = 3
	// LaunchBase, the first message, builds the root that every cell begins with:
	// Ops, StandIns and Hostname. It is answered by LaunchPrepared.
	LaunchBase LaunchType = 4

	LaunchPrepared LaunchType = 11 // the slot stands
	LaunchStarted  LaunchType = 12 // init runs; its pidfd comes along
	LaunchExited   LaunchType = 13 // init was reaped and the slot is gone
	LaunchFailed   LaunchType = 14 // Message says why; the slot is gone
)

// Launch is one message to or from the launcher.
type Launch struct {
	Type LaunchType
	Slot uint64
	// Unified says that the group descriptor is a cgroup v2 directory to clone
	// into, not v1 task files to write to.
	Unified bool
	// Groups is the number of group descriptors that came along.
	Groups uint64
	// Off names layers left out: negative controls only.
	Off     []string
	Message string
	Errno   uint64
	PID     uint64
	// Ops are the steps of LaunchBase, StandIns the files of proc that all cells
	// have in common.
	Ops      []Op
	StandIns []StandIn
	Hostname string
}

// MaxLaunch bounds a launcher message in bytes.
const MaxLaunch = 64 << 10

// Encode returns the packet.
func (l *Launch) Encode() []byte {
	e := &encoder{}
	e.num(uint64(l.Type))
	e.num(l.Slot)
	e.flag(l.Unified)
	e.num(l.Groups)
	e.strs(l.Off)
	e.str(l.Message)
	e.num(l.Errno)
	e.num(l.PID)
	encodeList(e, l.Ops, putOp)
	encodeList(e, l.StandIns, putStandIn)
	e.str(l.Hostname)
	return e.b
}

// DecodeLaunch is the inverse of Encode.
func DecodeLaunch(p []byte) (*Launch, error) {
	d := &decoder{b: p}
	l := &Launch{Type: LaunchType(d.num()), Slot: d.num(), Unified: d.flag(), Groups: d.num(), Off: d.strs(),
		Message: d.str(), Errno: d.num(), PID: d.num()}
	l.Ops = decodeList(d, getOp)
	l.StandIns = decodeList(d, getStandIn)
	l.Hostname = d.str()
	return l, d.end()
}
