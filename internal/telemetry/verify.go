package telemetry

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// AuditError says where an audit log is not what was written.
type AuditError struct {
	File string // its name in the folder
	Line int64  // the line's number in the whole log, 0 where it is about no line
	// Reason is a clause in English.
	Reason string
}

// Error is one sentence.
func (e *AuditError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("audit: %s %s", e.File, e.Reason)
	}
	return fmt.Sprintf("audit: %s: line %d %s", e.File, e.Line, e.Reason)
}

// check judges one line, with its end, as the one of that number behind the one with
// that hash. It returns its hash, or what is wrong.
func check(h Hasher, text string, seq int64, prev string) (hash, why string) {
	body, ok := strings.CutSuffix(text, lineEnd)
	at := len(body) - hashLength - len(hashMember)
	if !ok || at < 0 || body[at:at+len(hashMember)] != hashMember {
		return "", "is not in the form of a line"
	}
	hash = body[at+len(hashMember):]
	if !strings.HasPrefix(body, fmt.Sprintf(`{"seq":%d,"prev":"%s",`, seq, prev)) {
		return "", "does not follow the line before it"
	}
	if h.Hash(purposeLine, body[:at]) != hash {
		return "", "was changed, or not written with this key"
	}
	return hash, ""
}

// VerifyAudit reads a whole log and compares each line with its hash, with the line
// before it, and the end with the head. It returns the numbers of the first line and the
// last. The error is an *[AuditError] about the first line that is not what was
// written, or the system's. A log that is being written may be read beside that: what
// comes later is not looked at.
//
// Who can write to the folder, and brings back log and head as they were once, is not
// seen here: whoever must see that keeps the last number elsewhere.
func VerifyAudit(dir string, h Hasher) (first, last int64, err error) {
	end, err := loadHead(dir, h)
	switch {
	case err != nil:
		return 0, 0, err
	case end == nil:
		return 0, 0, &AuditError{File: headName, Reason: "is missing"}
	}
	at := &position{h: h, end: end, seq: end.Files[0].First - 1, hash: end.Files[0].Prev}
	for i, f := range end.Files {
		if err := at.file(dir, f, i == len(end.Files)-1); err != nil {
			return 0, 0, err
		}
	}
	return end.Files[0].First, at.seq, nil
}

// position is how far a reader has come.
type position struct {
	h    Hasher
	end  *head
	seq  int64
	hash string
}

func (p *position) file(dir string, f auditFile, newest bool) error {
	r, err := os.OpenFile(filepath.Join(dir, f.name()), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return &AuditError{File: f.name(), Reason: "cannot be opened: " + err.Error()}
	}
	defer r.Close()
	for b := bufio.NewReaderSize(r, maxLine); ; {
		text, err := b.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && (len(text) == 0 || newest): // half a line is being written
			return p.ended(f, newest)
		case errors.Is(err, io.EOF), errors.Is(err, bufio.ErrBufferFull):
			return &AuditError{File: f.name(), Line: p.seq + 1, Reason: "is not in the form of a line"}
		case err != nil:
			return fmt.Errorf("audit: %w", err)
		}
		hash, why := check(p.h, string(text), p.seq+1, p.hash)
		if why != "" {
			return &AuditError{File: f.name(), Line: p.seq + 1, Reason: why}
		}
		p.seq, p.hash = p.seq+1, hash
		if p.seq == p.end.Last && p.hash != p.end.Hash {
			return &AuditError{File: f.name(), Line: p.seq, Reason: "is not the one that the head knows"}
		}
	}
}

// ended judges the end of a file.
func (p *position) ended(f auditFile, newest bool) error {
	if newest && p.seq < p.end.Last {
		return &AuditError{File: f.name(), Line: p.seq + 1, Reason: "and what follows it is missing: the end was cut off"}
	}
	return nil
}
