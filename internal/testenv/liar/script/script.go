// Package script is what a lying worker is told to do: a list of steps, as the
// last argument of its command line.
package script

import "encoding/json"

// Prefix begins the argument that is a script.
const Prefix = "script="

// The steps that there are.
const (
	Hello  = "hello"  // the honest first frame; Text, if any, replaces the build id, Mode the mode
	Seal   = "seal"   // as an honest worker seals itself
	Ready  = "ready"  // the honest second frame
	Await  = "await"  // read what the host says up to a message of type Type, N of them if N is more than 1
	Frame  = "frame"  // write a frame of type Type whose payload is Parts
	Raw    = "raw"    // write Parts
	Drain  = "drain"  // from here on read and forget
	Sip    = "sip"    // from here on read N bytes each MS and forget them
	Sleep  = "sleep"  // do nothing for MS
	Spin   = "spin"   // use a processor for MS
	Alloc  = "alloc"  // take N bytes of memory and write to each page
	Quiet  = "quiet"  // close descriptors 1 and 2
	Chat   = "chat"   // write N bytes to descriptor 2
	Exit   = "exit"   // with status N
	Die    = "die"    // by SIGKILL
	Rest   = "rest"   // do nothing until the end
	Thread = "thread" // start N threads that do nothing
)

// Step is one thing to do.
type Step struct {
	Do    string  `json:"do"`
	Type  byte    `json:"type,omitempty"`
	Parts []Part  `json:"parts,omitempty"`
	Claim *uint32 `json:"claim,omitempty"` // what the frame says of its length, in place of the truth
	Times int     `json:"times,omitempty"` // how often; 0 is once
	Chunk int     `json:"chunk,omitempty"` // bytes of one write; 0 is all
	MS    int     `json:"ms,omitempty"`    // of Sleep and Spin; the pause after each write
	N     int64   `json:"n,omitempty"`
	Text  string  `json:"text,omitempty"`
	Mode  string  `json:"mode,omitempty"`
}

// The variables of a Part, each a varint.
const (
	Eval   = "eval"   // number of the last evaluation that the host has asked for
	Token  = "token"  // of the last binding
	First  = "first"  // token of the first binding
	Call   = "call"   // a number, one more each time
	Called = "called" // the same number again
)

// Part is a piece of a payload: Bytes as often as Times says, 0 being once, or a
// variable.
type Part struct {
	Bytes []byte `json:"bytes,omitempty"`
	Times int    `json:"times,omitempty"`
	Var   string `json:"var,omitempty"`
}

// Argument is a script as an argument.
func Argument(steps []Step) string {
	b, err := json.Marshal(steps)
	if err != nil {
		panic(err)
	}
	return Prefix + string(b)
}
