package mcpserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// lines is the transport of stdio and of a socket: a message a line. The SDK has one
// too; this one judges each message first, bounds the calls that wait, and never waits
// for a client that does not read once the session is to end.
type lines struct {
	in  io.ReadCloser
	out io.Writer

	incoming chan []byte
	readErr  error // why incoming was closed
	outgoing chan []byte
	closing  chan struct{} // nothing more is taken
	written  chan struct{} // the writer has ended
	once     sync.Once

	mu      sync.Mutex
	waiting map[jsonrpc.ID]bool
}

// drain is how long answers that were given wait to be written at the end.
const drain = 2 * time.Second

func newLines(in io.ReadCloser, out io.Writer) *lines {
	return &lines{in: in, out: out, incoming: make(chan []byte), outgoing: make(chan []byte, 16), closing: make(chan struct{}),
		written: make(chan struct{}), waiting: map[jsonrpc.ID]bool{}}
}

// Connect implements [mcp.Transport].
func (l *lines) Connect(context.Context) (mcp.Connection, error) {
	go l.read()
	go l.write()
	return l, nil
}

// SessionID implements [mcp.Connection]: the connection is the session.
func (l *lines) SessionID() string { return "" }

var errLine = fmt.Errorf("a message has more than %d bytes", MaxMessage)

// read takes lines from the client, one at a time.
func (l *lines) read() {
	defer close(l.incoming)
	r := bufio.NewReaderSize(l.in, 64<<10)
	for {
		line, err := readLine(r)
		if err != nil {
			l.readErr = err
			if errors.Is(err, errLine) {
				_ = l.send(context.Background(), (&refusal{"null", jsonrpc.CodeInvalidRequest, err.Error()}).line())
			}
			return
		}
		if len(line) == 0 {
			continue
		}
		select {
		case l.incoming <- line:
		case <-l.closing:
			l.readErr = io.EOF
			return
		}
	}
}

// readLine reads a line of at most MaxMessage bytes, without its end. What stands
// behind the last end of a line is no message.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > MaxMessage+1 {
			return nil, errLine
		}
		line = append(line, part...)
		switch {
		case err == nil:
			line = line[:len(line)-1]
			if n := len(line); n > 0 && line[n-1] == '\r' {
				line = line[:n-1]
			}
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// Read implements [mcp.Connection]. A message that is refused is answered here, and
// the next one is read.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var line []byte
		var ok bool
		select {
		case line, ok = <-l.incoming:
			if !ok {
				return nil, l.readErr
			}
		case <-l.closing:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		msg, err := l.take(line)
		if err == nil {
			return msg, nil
		}
		var no *refusal
		if !errors.As(err, &no) {
			no = &refusal{"null", jsonrpc.CodeInvalidRequest, words(err)}
		}
		if err := l.send(ctx, no.line()); err != nil {
			return nil, err
		}
	}
}

// take judges a line and decodes it.
func (l *lines) take(line []byte) (jsonrpc.Message, error) {
	f, err := judge(line)
	if err != nil {
		return nil, err
	}
	msg, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return nil, err
	}
	req, ok := msg.(*jsonrpc.Request)
	if !ok || !f.call {
		return msg, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.waiting[req.ID]:
		return nil, &refusal{f.id, jsonrpc.CodeInvalidRequest, "id: belongs to a call that waits for its answer"}
	case len(l.waiting) >= maxCalls:
		return nil, &refusal{f.id, jsonrpc.CodeInternalError, errTooMany.Error()}
	}
	l.waiting[req.ID] = true
	return msg, nil
}

// Write implements [mcp.Connection].
func (l *lines) Write(ctx context.Context, msg jsonrpc.Message) error {
	if r, ok := msg.(*jsonrpc.Response); ok {
		l.mu.Lock()
		delete(l.waiting, r.ID)
		l.mu.Unlock()
	}
	text, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	return l.send(ctx, text)
}

// send hands a line to the writer, and waits for room.
func (l *lines) send(ctx context.Context, text []byte) error {
	select {
	case <-l.closing:
		return io.ErrClosedPipe
	default:
	}
	select {
	case l.outgoing <- append(text, '\n'):
		return nil
	case <-l.closing:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write writes what was sent, and after the end what is there already.
func (l *lines) write() {
	defer close(l.written)
	for {
		select {
		case text := <-l.outgoing:
			if _, err := l.out.Write(text); err != nil {
				l.stop()
				return
			}
		case <-l.closing:
			for {
				select {
				case text := <-l.outgoing:
					if _, err := l.out.Write(text); err != nil {
						return
					}
				default:
					return
				}
			}
		}
	}
}

func (l *lines) stop() { l.once.Do(func() { close(l.closing) }) }

// Close implements [mcp.Connection].
func (l *lines) Close() error {
	l.stop()
	select {
	case <-l.written:
	case <-time.After(drain):
	}
	return l.in.Close()
}

// serve serves one connection until it ends, the context ends or the server closes.
func (s *Server) serve(ctx context.Context, p principal, l *lines) error {
	ss, err := s.client(p).mcp.Connect(ctx, l, nil)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- ss.Wait() }()
	select {
	case err = <-ended:
		return err
	case <-ctx.Done():
	case <-s.ctx.Done():
	case <-l.closing:
	}
	l.stop() // ends its calls, and whoever waits to write
	select {
	case <-ended:
		return context.Cause(ctx)
	case <-time.After(drain + time.Second): // a client that neither reads nor goes
		return errors.Join(context.Cause(ctx), errors.New("the session did not end in time"))
	}
}

// ServeStdio serves the process that started this one until it closes in, or the
// context ends. Nothing else may write to out.
func (s *Server) ServeStdio(ctx context.Context, in io.ReadCloser, out io.Writer) error {
	return s.serve(ctx, principal{name: "stdio", local: true}, newLines(in, out))
}
