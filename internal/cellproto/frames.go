package cellproto

import "encoding/binary"

func putOp(e *encoder, o *Op) {
	e.num(uint64(o.Kind))
	e.str(o.Path)
	e.str(o.Source)
	e.num(o.Mode)
	e.bytes(o.Data)
}

func getOp(d *decoder, o *Op) {
	o.Kind, o.Path, o.Source, o.Mode, o.Data = OpKind(d.num()), d.str(), d.str(), d.num(), d.bytes()
}

func putStandIn(e *encoder, s *StandIn) { e.str(s.Path); e.bytes(s.Data) }
func getStandIn(d *decoder, s *StandIn) { s.Path, s.Data = d.str(), d.bytes() }

func putRule(e *encoder, r *LandlockRule) { e.str(r.Path); e.num(r.Access) }
func getRule(d *decoder, r *LandlockRule) { r.Path, r.Access = d.str(), d.num() }

func putLandlock(e *encoder, l *Landlock) {
	e.num(l.HandledFS)
	e.num(l.HandledNet)
	e.num(l.Scoped)
	encodeList(e, l.Rules, putRule)
}

func getLandlock(d *decoder, l *Landlock) {
	l.HandledFS, l.HandledNet, l.Scoped = d.num(), d.num(), d.num()
	l.Rules = decodeList(d, getRule)
}

// Encode returns the payload of a TypeArm frame.
func (a *Arm) Encode() []byte {
	e := &encoder{b: make([]byte, 0, 16<<10)}
	e.bytes(a.Nonce)
	e.flag(a.Loopback)
	e.bytes(a.Passwd)
	e.bytes(a.Group)
	encodeList(e, a.StandIns, putStandIn)
	e.strs(a.ProcCommon)
	e.strs(a.ProcKeep)
	e.num(a.DiskBytes)
	e.num(a.DiskFiles)
	e.flag(a.Maker)
	e.num(a.UID)
	e.num(a.GID)
	e.flag(a.DropGroups)
	e.flag(a.TimeNS)
	putLandlock(e, &a.Guest)
	putLandlock(e, &a.Init)
	e.bytes(a.Filter)
	e.flag(a.Notify)
	e.bytes(a.Watch)
	e.bytes(a.Judge)
	e.num(a.CoreLimit)
	e.strs(a.Probes)
	e.strs(a.Off)
	return e.b
}

// DecodeArm is the inverse of Encode.
func DecodeArm(p []byte) (*Arm, error) {
	d := &decoder{b: p}
	a := &Arm{Nonce: d.bytes(), Loopback: d.flag(), Passwd: d.bytes(), Group: d.bytes()}
	a.StandIns = decodeList(d, getStandIn)
	a.ProcCommon, a.ProcKeep = d.strs(), d.strs()
	a.DiskBytes, a.DiskFiles, a.Maker = d.num(), d.num(), d.flag()
	a.UID, a.GID = d.num(), d.num()
	a.DropGroups, a.TimeNS = d.flag(), d.flag()
	getLandlock(d, &a.Guest)
	getLandlock(d, &a.Init)
	a.Filter, a.Notify = d.bytes(), d.flag()
	a.Watch, a.Judge = d.bytes(), d.bytes()
	a.CoreLimit = d.num()
	a.Probes, a.Off = d.strs(), d.strs()
	return a, d.end()
}

func putProbe(e *encoder, p *ProbeResult) { e.str(p.Name); e.num(p.Errno) }
func getProbe(d *decoder, p *ProbeResult) { p.Name, p.Errno = d.str(), d.num() }
func putApplied(e *encoder, a *Applied)   { e.str(a.Layer); e.flag(a.OK); e.str(a.Detail) }
func getApplied(d *decoder, a *Applied)   { a.Layer, a.OK, a.Detail = d.str(), d.flag(), d.str() }
func putStep(e *encoder, s *Step)         { e.str(s.Name); e.num(s.NS) }
func getStep(d *decoder, s *Step)         { s.Name, s.NS = d.str(), d.num() }

// Encode returns the payload of a TypeArmed frame.
func (a *Armed) Encode() []byte {
	e := &encoder{b: make([]byte, 0, 4<<10)}
	e.bytes(a.Nonce)
	encodeList(e, a.Layers, putApplied)
	encodeList(e, a.Probes, putProbe)
	encodeList(e, a.Steps, putStep)
	return e.b
}

// DecodeArmed is the inverse of Encode.
func DecodeArmed(p []byte) (*Armed, error) {
	d := &decoder{b: p}
	a := &Armed{Nonce: d.bytes()}
	a.Layers = decodeList(d, getApplied)
	a.Probes = decodeList(d, getProbe)
	a.Steps = decodeList(d, getStep)
	return a, d.end()
}

// Encode returns the payload of a TypeFile or TypeArtifact frame.
func (p *Piece) Encode() []byte { return append(p.head(0), p.Data...) }

// Head returns the whole frame but for its last bytes, which are Data: init has
// no collector of garbage, and would keep a copy of all it sends.
func (p *Piece) Head(t Type) []byte {
	b := p.head(headerLen)
	binary.BigEndian.PutUint32(b, uint32(len(b)-headerLen+len(p.Data)))
	b[headerLen-1] = byte(t)
	return b
}

func (p *Piece) head(room int) []byte {
	e := &encoder{b: make([]byte, room, room+len(p.Name)+40)}
	e.num(uint64(p.Place))
	e.str(p.Name)
	e.num(p.Mode)
	e.num(p.Size)
	e.flag(p.More)
	e.num(uint64(len(p.Data)))
	return e.b
}

// DecodePiece is the inverse of Encode. Data is part of b.
func DecodePiece(b []byte) (*Piece, error) {
	d := &decoder{b: b}
	p := &Piece{Place: Place(d.num()), Name: d.str(), Mode: d.num(), Size: d.num(), More: d.flag(), Data: d.bytes()}
	return p, d.end()
}

// Encode returns the payload of a TypeJob frame.
func (j *Job) Encode() []byte {
	e := &encoder{b: make([]byte, 0, 4<<10)}
	e.strs(j.Argv)
	e.strs(j.Env)
	e.str(j.Dir)
	encodeList(e, j.StandIns, putStandIn)
	e.num(j.FileBytes)
	e.num(j.OpenFiles)
	e.num(j.Tasks)
	e.num(j.CPUSeconds)
	e.num(j.DeadlineMS)
	e.flag(j.Signals)
	e.num(uint64(j.Collect.Place))
	e.strs(j.Collect.Patterns)
	e.num(j.Collect.Bytes)
	e.num(j.Collect.FileBytes)
	e.num(j.Collect.Files)
	e.num(j.Collect.MS)
	return e.b
}

// DecodeJob is the inverse of Encode.
func DecodeJob(p []byte) (*Job, error) {
	d := &decoder{b: p}
	j := &Job{Argv: d.strs(), Env: d.strs(), Dir: d.str()}
	j.StandIns = decodeList(d, getStandIn)
	j.FileBytes, j.OpenFiles, j.Tasks, j.CPUSeconds, j.DeadlineMS = d.num(), d.num(), d.num(), d.num(), d.num()
	j.Signals = d.flag()
	j.Collect = Collect{Place: Place(d.num()), Patterns: d.strs(), Bytes: d.num(), FileBytes: d.num(), Files: d.num(), MS: d.num()}
	return j, d.end()
}

// Encode returns the payload of a TypeRefused frame.
func (r Refused) Encode() []byte { e := &encoder{}; e.str(r.Name); e.str(r.Reason); return e.b }

// DecodeRefused is the inverse of Encode.
func DecodeRefused(p []byte) (Refused, error) {
	d := &decoder{b: p}
	r := Refused{Name: d.str(), Reason: d.str()}
	return r, d.end()
}

// Encode returns the payload of a TypeSignal frame.
func (s Signal) Encode() []byte { e := &encoder{}; e.num(s.Number); return e.b }

// DecodeSignal is the inverse of Encode.
func DecodeSignal(p []byte) (Signal, error) {
	d := &decoder{b: p}
	s := Signal{Number: d.num()}
	return s, d.end()
}

// Encode returns the payload of a TypeStarted frame.
func (s Started) Encode() []byte { e := &encoder{}; e.num(s.PID); return e.b }

// DecodeStarted is the inverse of Encode.
func DecodeStarted(p []byte) (Started, error) {
	d := &decoder{b: p}
	s := Started{PID: d.num()}
	return s, d.end()
}

// Encode returns the payload of a TypeDenied frame.
func (v Denied) Encode() []byte { e := &encoder{}; e.num(v.Arch); e.num(v.Number); return e.b }

// DecodeDenied is the inverse of Encode.
func DecodeDenied(p []byte) (Denied, error) {
	d := &decoder{b: p}
	v := Denied{Arch: d.num(), Number: d.num()}
	return v, d.end()
}

func putTraced(e *encoder, c *TracedCall) {
	e.num(c.Arch)
	e.num(c.Number)
	e.num(c.Answer)
	e.num(c.Count)
}
func getTraced(d *decoder, c *TracedCall) {
	c.Arch, c.Number, c.Answer, c.Count = d.num(), d.num(), d.num(), d.num()
}

// Encode returns the payload of a TypeTraced frame.
func (t *Traced) Encode() []byte {
	e := &encoder{}
	e.flag(t.Final)
	encodeList(e, t.Calls, putTraced)
	return e.b
}

// DecodeTraced is the inverse of Encode. More than MaxTraced calls are malformed.
func DecodeTraced(p []byte) (*Traced, error) {
	d := &decoder{b: p}
	t := &Traced{Final: d.flag(), Calls: decodeList(d, getTraced)}
	if len(t.Calls) > MaxTraced {
		d.fail("too many calls")
	}
	return t, d.end()
}

// Encode returns the payload of a TypeExited frame.
func (v Exited) Encode() []byte { e := &encoder{}; e.num(v.Status); e.num(v.WallNS); return e.b }

// DecodeExited is the inverse of Encode.
func DecodeExited(p []byte) (Exited, error) {
	d := &decoder{b: p}
	v := Exited{Status: d.num(), WallNS: d.num()}
	return v, d.end()
}

// Encode returns the payload of a TypeFailed frame.
func (f Failed) Encode() []byte {
	e := &encoder{}
	e.str(f.Stage)
	e.str(f.Message)
	e.num(f.Errno)
	return e.b
}

// DecodeFailed is the inverse of Encode.
func DecodeFailed(p []byte) (Failed, error) {
	d := &decoder{b: p}
	f := Failed{Stage: d.str(), Message: d.str(), Errno: d.num()}
	return f, d.end()
}
