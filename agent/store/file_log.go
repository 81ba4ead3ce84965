package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// A generation is one file. It begins with a head of fixed size, of which some
// places are written over again:
//
//	0   8 bytes of magic
//	8   claim, 4 bytes: not zero when somebody has begun to take the session over
//	16  beat, 8 bytes: a counter that the holder moves
//	32  two slots, written in turn after each commit: how far the file is known to
//	    be good, so that a file that was cut is told from one that never was longer
//
// and goes on with entries, each written once, by one write in one place:
//
//	kind 1, zeros 3, head's length 4, body's length 4, CRC-32C of head and body 4,
//	number 8, zeros 4, CRC-32C of what is before 4, head, body
//
// The first entry is the birth, with key and number of the lease. An entry that
// the file ends within was never committed.
const (
	fileMagic  = "GLOVEST1"
	atClaim    = 8
	atBeat     = 16
	atSlots    = 32
	sizeSlot   = 32
	sizeHeader = 128
	sizeEntry  = 32
)

// Kinds of entries.
const (
	entryBirth  = 1 // body: number of the lease 8, deleted 1, owner's length 2, owner, id
	entryTake   = 2 // body: number of the lease that goes on here 8
	entryCommit = 3 // head and frames
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entryHead appends the fixed part of an entry, and its head.
func entryHead(dst []byte, kind byte, seq uint64, head, body []byte) []byte {
	start := len(dst)
	dst = append(dst, kind, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(head)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(body)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, body))
	dst = binary.LittleEndian.AppendUint64(dst, seq)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	return append(dst, head...)
}

func birthBody(k Key, fence uint64, deleted bool) []byte {
	b := binary.LittleEndian.AppendUint64(nil, fence)
	b = append(b, 0)
	if deleted {
		b[8] = 1
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(k.Owner)))
	return append(append(b, k.Owner...), k.ID...)
}

// slot says how far a generation is good.
type slot struct {
	seq, end, journal uint64
	committed         bool
	settled           bool // the folders above were brought to the disk
}

func (s slot) bytes() []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, sizeSlot), s.seq)
	b = binary.LittleEndian.AppendUint64(b, s.end)
	b = binary.LittleEndian.AppendUint64(b, s.journal)
	flags := uint32(0)
	if s.committed {
		flags = 1
	}
	if s.settled {
		flags |= 2
	}
	b = binary.LittleEndian.AppendUint32(b, flags)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// write puts the slot in its place, where an older one was.
func (s slot) write(f io.WriterAt) error {
	_, err := f.WriteAt(s.bytes(), atSlots+int64(s.seq%2)*sizeSlot)
	return err
}

// bestSlot is the newer one of those that hold.
func bestSlot(header []byte) (best slot) {
	for i := range 2 {
		b := header[atSlots+i*sizeSlot:][:sizeSlot]
		if crc32.Checksum(b[:28], castagnoli) != binary.LittleEndian.Uint32(b[28:]) {
			continue
		}
		s := slot{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), b[24]&1 != 0, b[24]&2 != 0}
		if s.seq > best.seq {
			best = s
		}
	}
	return best
}

// logState is what the entries of a generation come to.
type logState struct {
	slot
	key     Key
	fence   uint64
	deleted bool
	claimed bool
	beat    uint64
	body    []byte // the journal
	head    []byte
}

// errTorn is an entry that the file ends within.
var errTorn = errors.New("torn")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// scan reads a generation, up to and with entry number limit.
func scan(f *os.File, limit uint64) (*logState, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, damaged("no plain file")
	}
	header := make([]byte, sizeHeader)
	if _, err := f.ReadAt(header, 0); err != nil || string(header[:8]) != fileMagic {
		return nil, damaged("a file that does not begin like one of this version")
	}
	// The slots are read first: what they say was in the file before its end is looked for.
	floor := bestSlot(header)
	s := &logState{claimed: isClaimed(header[atClaim:]), beat: binary.LittleEndian.Uint64(header[atBeat:])}
	s.end, s.settled = sizeHeader, floor.settled
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	r := &logReader{Reader: bufio.NewReaderSize(io.NewSectionReader(f, sizeHeader, info.Size()-sizeHeader), 128<<10), left: info.Size() - sizeHeader}
	for r.left > 0 && s.seq < limit {
		err := s.next(r)
		if errors.Is(err, errTorn) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case s.fence == 0:
		return nil, damaged("a file without its first entry")
	case floor.seq <= limit && (s.seq < floor.seq || s.end < floor.end):
		return nil, damaged("it ends at entry %d, and had %d", s.seq, floor.seq)
	}
	return s, nil
}

func isClaimed(b []byte) bool { return binary.LittleEndian.Uint32(b) != 0 }

type logReader struct {
	*bufio.Reader
	left int64
}

// read fills b, which must not be longer than what is left.
func (r *logReader) read(b []byte) error {
	n, err := io.ReadFull(r.Reader, b)
	r.left -= int64(n)
	return err
}

// next takes one entry.
func (s *logState) next(r *logReader) error {
	if r.left < sizeEntry {
		return errTorn
	}
	var h [sizeEntry]byte
	if err := r.read(h[:]); err != nil {
		return err
	}
	if crc32.Checksum(h[:28], castagnoli) != binary.LittleEndian.Uint32(h[28:]) {
		return blank(h[:], r)
	}
	nh, nb := int64(binary.LittleEndian.Uint32(h[4:])), int64(binary.LittleEndian.Uint32(h[8:]))
	if seq := binary.LittleEndian.Uint64(h[16:]); seq != s.seq+1 || nh > MaxHead || nb > MaxJournal {
		return damaged("entry %d of %d and %d bytes after entry %d", seq, nh, nb, s.seq)
	}
	if nh+nb > r.left {
		return errTorn
	}
	head, body, had := make([]byte, nh), s.body, len(s.body)
	if h[0] != entryCommit {
		body, had = nil, 0
	}
	if int64(had)+nb > MaxJournal {
		return damaged("a journal of more than %d bytes", MaxJournal)
	}
	body = grow(body, int(nb))
	if err := errors.Join(r.read(head), r.read(body[had:])); err != nil {
		return err
	}
	if crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, body[had:]) != binary.LittleEndian.Uint32(h[12:]) {
		if r.left == 0 {
			return errTorn // the machine ended before all of it was on the disk
		}
		return damaged("entry %d is not what was written", s.seq+1)
	}
	if err := s.apply(h[0], head, body); err != nil {
		return err
	}
	s.seq++
	s.end += uint64(sizeEntry + nh + nb)
	return nil
}

// grow lengthens a slice, by doubling where it is small and has to move.
func grow(b []byte, n int) []byte {
	if len(b)+n > cap(b) {
		b = append(make([]byte, 0, max(len(b)+n, min(2*len(b), len(b)+64<<20))), b...)
	}
	return b[:len(b)+n]
}

func (s *logState) apply(kind byte, head, body []byte) error {
	switch {
	case kind == entryBirth && s.seq == 0 && len(body) > 11:
		n := int(binary.LittleEndian.Uint16(body[9:]))
		if n > len(body)-11 {
			return damaged("a birth with an owner of %d bytes", n)
		}
		s.fence, s.deleted = binary.LittleEndian.Uint64(body), body[8] != 0
		s.key = Key{string(body[11 : 11+n]), string(body[11+n:])}
	case kind == entryTake && s.seq > 0 && len(body) == 8:
		fence := binary.LittleEndian.Uint64(body)
		if fence <= s.fence {
			return damaged("lease %d after %d", fence, s.fence)
		}
		s.fence = fence
	case kind == entryCommit && s.seq > 0:
		s.body, s.head, s.journal, s.committed = body, head, uint64(len(body)), true
	default:
		return damaged("entry %d of kind %d with %d bytes", s.seq+1, kind, len(body))
	}
	return nil
}

// blank judges an entry whose beginning does not hold: room that the file system
// gave, without bytes, is torn.
func blank(h []byte, r *logReader) error {
	zeros := make([]byte, 32<<10)
	if !bytes.Equal(h, zeros[:len(h)]) {
		return damaged("the beginning of an entry is not what was written")
	}
	buf := make([]byte, len(zeros))
	for r.left > 0 {
		b := buf[:min(int64(len(buf)), r.left)]
		if err := r.read(b); err != nil {
			return err
		}
		if !bytes.Equal(b, zeros[:len(b)]) {
			return damaged("an entry without its beginning")
		}
	}
	return errTorn
}

// newGeneration is a whole file, but for a journal, which is behind it.
func newGeneration(k Key, fence uint64, deleted, settled bool, r *Record) (start []byte, s slot) {
	b := make([]byte, sizeHeader, sizeHeader+2*sizeEntry+1024)
	copy(b, fileMagic)
	birth := birthBody(k, fence, deleted)
	b = append(entryHead(b, entryBirth, 1, nil, birth), birth...)
	s = slot{seq: 1, end: uint64(len(b)), settled: settled}
	if r != nil {
		b = entryHead(b, entryCommit, 2, r.Head, r.Journal)
		s = slot{2, uint64(len(b) + len(r.Journal)), uint64(len(r.Journal)), true, settled}
	}
	copy(b[atSlots+s.seq%2*sizeSlot:], s.bytes())
	return b, s
}
