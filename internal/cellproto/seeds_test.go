package cellproto_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// decoders are all readers of hostile bytes, under one shape: they return the
// value and the function that encodes it again.
var decoders = map[string]func([]byte) (value any, encode func() []byte, err error){
	"Arm": func(p []byte) (any, func() []byte, error) {
		v, err := cellproto.DecodeArm(p)
		return v, v.Encode, err
	},
	"Armed": func(p []byte) (any, func() []byte, error) {
		v, err := cellproto.DecodeArmed(p)
		return v, v.Encode, err
	},
	"Job": func(p []byte) (any, func() []byte, error) {
		v, err := cellproto.DecodeJob(p)
		return v, v.Encode, err
	},
	"Started": func(p []byte) (any, func() []byte, error) {
		v, err := cellproto.DecodeStarted(p)
		return v, v.Encode, err
	},
	"Denied": func(p []byte) (any, func() []byte, error) {
		v, err := cellproto.DecodeDenied(p)
		return v, v.Encode, err
	},
	"Exited": func(p []byte) (any, func() []byte, error) {
		v, err := cellproto.DecodeExited(p)
		return v, v.Encode, err
	},
	"Failed": func(p []byte) (any, func() []byte, error) {
		v, err := cellproto.DecodeFailed(p)
		return v, v.Encode, err
	},
	"Piece": func(p []byte) (any, func() []byte, error) {
		v, err := cellproto.DecodePiece(p)
		return v, v.Encode, err
	},
	"Refused": func(p []byte) (any, func() []byte, error) {
		v, err := cellproto.DecodeRefused(p)
		return v, v.Encode, err
	},
	"Signal": func(p []byte) (any, func() []byte, error) {
		v, err := cellproto.DecodeSignal(p)
		return v, v.Encode, err
	},
	"Launch": func(p []byte) (any, func() []byte, error) {
		v, err := cellproto.DecodeLaunch(p)
		return v, v.Encode, err
	},
}

// samples are one full frame of each kind, with every field set.
func samples() map[string][]byte {
	land := cellproto.Landlock{HandledFS: 7, HandledNet: 3, Scoped: 1, Rules: []cellproto.LandlockRule{{Path: "usr", Access: 4}}}
	arm := &cellproto.Arm{
		Nonce: []byte("nonce"), Loopback: true, Passwd: []byte("p"), Group: []byte("g"),
		StandIns: []cellproto.StandIn{{Path: "meminfo", Data: []byte("0")}}, ProcCommon: []string{"sys"}, ProcKeep: []string{"self", "mounts"},
		DiskBytes: 1 << 27, DiskFiles: 10_000, Maker: true, UID: 17, GID: 18, DropGroups: true, TimeNS: true,
		Guest: land, Init: land, Filter: bytes.Repeat([]byte{6}, 64), Notify: true, CoreLimit: 1,
		Probes: []string{"a", "b"}, Off: []string{"cgroup"},
	}
	armed := &cellproto.Armed{Nonce: []byte("n"), Layers: []cellproto.Applied{{Layer: "root", OK: true, Detail: "d"}},
		Probes: []cellproto.ProbeResult{{Name: "p", Errno: 13}}, Steps: []cellproto.Step{{Name: "s", NS: 1 << 40}}}
	job := &cellproto.Job{Argv: []string{"/bin/true", ""}, Env: []string{"A=b"}, Dir: "/box",
		StandIns:  []cellproto.StandIn{{Path: "stat", Data: []byte("cpu")}},
		FileBytes: 1, OpenFiles: 2, CPUSeconds: 3, Tasks: 4, DeadlineMS: 1<<64 - 1, Signals: true,
		Collect: cellproto.Collect{Place: cellproto.PlaceProduct, Patterns: []string{"**", "a/*"}, Bytes: 5, FileBytes: 6, Files: 7, MS: 8}}
	piece := &cellproto.Piece{Place: cellproto.PlaceProduct, Name: "a/f", Mode: 0o755, Size: 9, More: true, Data: []byte{0, 1, 0xff}}
	launch := &cellproto.Launch{Type: cellproto.LaunchPrepare, Slot: 1 << 60, Unified: true, Groups: 4, Off: []string{"net"}, Message: "m", Errno: 11, PID: 4}
	return map[string][]byte{
		"Arm": arm.Encode(), "Armed": armed.Encode(), "Job": job.Encode(), "Launch": launch.Encode(),
		"Started": cellproto.Started{PID: 2}.Encode(), "Denied": cellproto.Denied{Arch: 0xc000003e, Number: 101}.Encode(),
		"Exited": cellproto.Exited{Status: 9, WallNS: 1 << 50}.Encode(),
		"Failed": cellproto.Failed{Stage: "exec", Message: "no", Errno: 2}.Encode(),
		"Piece":  piece.Encode(), "Refused": cellproto.Refused{Name: "a", Reason: "b"}.Encode(), "Signal": cellproto.Signal{Number: 15}.Encode(),
	}
}

// hostile are payloads that lie, cut, repeat or nest.
func hostile() [][]byte {
	huge := binary.AppendUvarint(nil, 1<<63)
	all := [][]byte{
		nil, {0}, {1}, {0x80}, bytes.Repeat([]byte{0x80}, 10), bytes.Repeat([]byte{0xff}, 64), bytes.Repeat([]byte{1}, 512),
		huge, append([]byte{0}, huge...), append([]byte{0, 0, 0}, huge...), binary.AppendUvarint([]byte{0, 0, 0}, 1<<16),
		bytes.Repeat([]byte{0}, 1<<10),
	}
	for _, p := range samples() {
		all = append(all, p[:len(p)/2], append(bytes.Clone(p), 0), append(bytes.Clone(p), p...))
		for i := 0; i < len(p); i += max(1, len(p)/16) {
			q := bytes.Clone(p)
			q[i] ^= 0xff
			all = append(all, q)
		}
	}
	return all
}

// judge gives a payload to a decoder. What is accepted must say the same when
// it is encoded and decoded again; what is refused is refused as malformed. Neither
// takes more memory than a small multiple of the payload.
func judge(t *testing.T, name string, p []byte) {
	if _, allocated := measured(func() { _, _, _ = decoders[name](p) }); allocated > uint64(256*len(p)+256<<10) {
		t.Fatalf("%s: %d bytes allocated for %d", name, allocated, len(p))
	}
	v, encode, err := decoders[name](p)
	if err != nil {
		if !errors.Is(err, cellproto.ErrMalformed) {
			t.Fatalf("%s: %v is not ErrMalformed", name, err)
		}
		return
	}
	again := encode()
	w, twice, err := decoders[name](again)
	if err != nil {
		t.Fatalf("%s: the encoding of what was accepted is refused: %v", name, err)
	}
	if !bytes.Equal(again, twice()) || !cmp.Equal(v, w) {
		t.Fatalf("%s: not stable: %s", name, cmp.Diff(v, w))
	}
	if len(again) > len(p) {
		t.Fatalf("%s: %d bytes became %d", name, len(p), len(again))
	}
}

// Every seed of the fuzz targets goes through every decoder.
//
// proves part of T-13
func TestDecodeSeeds(t *testing.T) {
	seeds := hostile()
	for name, p := range samples() {
		if _, encode, err := decoders[name](p); err != nil || !bytes.Equal(encode(), p) {
			t.Errorf("%s: the sample does not come back: %v", name, err)
		}
		if _, _, err := decoders[name](append(bytes.Clone(p), 0)); !errors.Is(err, cellproto.ErrMalformed) {
			t.Errorf("%s: a byte too many: %v", name, err)
		}
		seeds = append(seeds, p)
	}
	for name := range decoders {
		for _, p := range seeds {
			judge(t, name, p)
		}
	}
}

func fuzz(f *testing.F, name string) {
	f.Add(samples()[name])
	for _, p := range hostile() {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) { judge(t, name, p) })
}

func FuzzDecodeArm(f *testing.F)     { fuzz(f, "Arm") }
func FuzzDecodeArmed(f *testing.F)   { fuzz(f, "Armed") }
func FuzzDecodeJob(f *testing.F)     { fuzz(f, "Job") }
func FuzzDecodeStarted(f *testing.F) { fuzz(f, "Started") }
func FuzzDecodeDenied(f *testing.F)  { fuzz(f, "Denied") }
func FuzzDecodeExited(f *testing.F)  { fuzz(f, "Exited") }
func FuzzDecodeFailed(f *testing.F)  { fuzz(f, "Failed") }
func FuzzDecodeLaunch(f *testing.F)  { fuzz(f, "Launch") }
func FuzzDecodePiece(f *testing.F)   { fuzz(f, "Piece") }
func FuzzDecodeRefused(f *testing.F) { fuzz(f, "Refused") }
func FuzzDecodeSignal(f *testing.F)  { fuzz(f, "Signal") }

// FuzzReadFrame reads frames from arbitrary bytes until they end.
func FuzzReadFrame(f *testing.F) {
	for name, p := range samples() {
		f.Add(cellproto.AppendFrame(nil, cellproto.Type(len(name)), p))
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1, 2})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, p []byte) { readAll(t, p, 1<<20) })
}

// readAll reads frames to the end and checks that nothing is invented.
func readAll(t *testing.T, p []byte, limit int) (frames int) {
	r := bytes.NewReader(p)
	for {
		kind, payload, err := cellproto.ReadFrame(r, limit)
		if err != nil {
			return frames
		}
		frames++
		if len(payload) > limit {
			t.Fatalf("a payload of %d bytes, limit %d", len(payload), limit)
		}
		frame := cellproto.AppendFrame(nil, kind, payload)
		at := len(p) - r.Len()
		if !bytes.Equal(frame, p[at-len(frame):at]) {
			t.Fatal("the frame is not what was read")
		}
	}
}
