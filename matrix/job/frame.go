package job

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"sync"
)

// Kind says what a frame reports.
type Kind string

// The kinds of frames, in the order in which a machine sends them.
const (
	Hello Kind = "hello" // the guest is up; Text is the kernel's release
	Note  Kind = "note"  // something did not go as asked; Text says what
	Start Kind = "start" // a command was started
	Data  Kind = "data"  // bytes that it wrote
	Exit  Kind = "exit"  // it ended
	Done  Kind = "done"  // all commands ran, the machine goes off
)

// MaxData is the most bytes that one Data frame carries.
const MaxData = 16 << 10

// Frame is one report of the guest.
type Frame struct {
	Seq     int
	Kind    Kind
	Command int    `json:",omitempty"` // index into Job.Commands
	Stderr  bool   `json:",omitempty"` // Data: of standard error
	Data    []byte `json:",omitempty"`
	Text    string `json:",omitempty"`

	// Of an Exit frame.
	Code     int    `json:",omitempty"` // 128+N after signal N, -1 if not started
	Signal   string `json:",omitempty"`
	TimedOut bool   `json:",omitempty"`
	Cut      bool   `json:",omitempty"` // output beyond the bound was dropped
	Millis   int64  `json:",omitempty"`
}

// Writer numbers frames and writes them as lines. It may be used by several
// goroutines.
type Writer struct {
	mu  sync.Mutex
	w   io.Writer
	seq int
}

// NewWriter returns a writer of frames to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write sends f with the next number. A line is "~", the CRC-32 of the JSON
// text in hexadecimal, a space and that text.
func (w *Writer) Write(f Frame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.Seq = w.seq
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	w.seq++
	line := fmt.Appendf(nil, "~%08x %s\n", crc32.ChecksumIEEE(text), text)
	_, err = w.w.Write(line)
	return err
}

// Reader takes frames from a stream that may have other lines in it.
type Reader struct {
	s    *bufio.Scanner
	next int
	// Strays counts lines that are no whole frame.
	Strays int
}

// NewReader returns a reader of the frames in r.
func NewReader(r io.Reader) *Reader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), 4<<20)
	return &Reader{s: s}
}

// Read returns the next frame and io.EOF after the last. A number out of turn
// is an error: a frame was lost.
func (r *Reader) Read() (Frame, error) {
	for r.s.Scan() {
		f, ok := parse(r.s.Bytes())
		if !ok {
			r.Strays++
			continue
		}
		if f.Seq != r.next {
			return Frame{}, fmt.Errorf("frame %d came where %d was due", f.Seq, r.next)
		}
		r.next++
		return f, nil
	}
	if err := r.s.Err(); err != nil {
		return Frame{}, err
	}
	return Frame{}, io.EOF
}

// parse reads one line; false means that it is not a frame.
func parse(line []byte) (Frame, bool) {
	line = bytes.TrimRight(line, "\r")
	if len(line) < 11 || line[0] != '~' || line[9] != ' ' {
		return Frame{}, false
	}
	sum, err := strconv.ParseUint(string(line[1:9]), 16, 32)
	if err != nil || uint32(sum) != crc32.ChecksumIEEE(line[10:]) {
		return Frame{}, false
	}
	var f Frame
	if json.Unmarshal(line[10:], &f) != nil {
		return Frame{}, false
	}
	return f, true
}
