package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/glovebox-dev/glovebox/api"
)

// ws is a client of a run's WebSocket.
type ws struct {
	t    *testing.T
	conn *websocket.Conn
}

// dial opens the WebSocket of a run; what is behind the id is a query.
func (p *place) dial(id string) *ws {
	p.t.Helper()
	run, query, _ := strings.Cut(id, "?")
	c, _, err := websocket.Dial(p.t.Context(), "ws://"+p.addr+"/v1/runs/"+run+"/stream?"+query, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	c.SetReadLimit(64 << 20)
	p.t.Cleanup(func() { _ = c.CloseNow() })
	return &ws{t: p.t, conn: c}
}

// next is the next frame; nil and the status when the server has closed.
func (w *ws) next() (*api.Frame, websocket.StatusCode) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 60*time.Second)
	defer cancel()
	_, data, err := w.conn.Read(ctx)
	if err != nil {
		if ctx.Err() != nil {
			w.t.Fatal(err)
		}
		return nil, websocket.CloseStatus(err)
	}
	var f api.Frame
	if err := json.Unmarshal(data, &f); err != nil {
		w.t.Fatalf("%s: %v", data, err)
	}
	return &f, 0
}

// until reads frames until one of a type, which is the last of them.
func (w *ws) until(kind string) (all []api.Frame) {
	w.t.Helper()
	for {
		f, code := w.next()
		if f == nil {
			w.t.Fatalf("closed with %d before %q: %+v", code, kind, all)
		}
		if all = append(all, *f); f.Type == kind {
			return all
		}
	}
}

// all are the frames until the server closes, and with which status it does.
func (w *ws) all() (all []api.Frame, code websocket.StatusCode) {
	w.t.Helper()
	for {
		f, code := w.next()
		if f == nil {
			return all, code
		}
		all = append(all, *f)
	}
}

// say sends a frame.
func (w *ws) say(f api.ClientFrame) {
	w.t.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.conn.Write(w.t.Context(), websocket.MessageText, data); err != nil {
		w.t.Fatal(err)
	}
}

// refused sends a frame that is answered with an error of a code.
func (w *ws) refused(f api.ClientFrame, code api.Code) {
	w.t.Helper()
	w.say(f)
	if e := w.until("error"); e[len(e)-1].Code != code || e[len(e)-1].Message == "" {
		w.t.Errorf("%+v: %+v, not %s", f, e[len(e)-1], code)
	}
}

// raw opens a connection with a small window and sends a request's head.
func (p *place) raw(path string, lines ...string) (*net.TCPConn, *bufio.Reader) {
	p.t.Helper()
	d := net.Dialer{Control: smallWindow}
	c, err := d.DialContext(p.t.Context(), "tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = c.Close() })
	head := "GET " + path + " HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	if _, err := c.Write([]byte(strings.ReplaceAll(head, "SELF", p.addr))); err != nil {
		p.t.Fatal(err)
	}
	return c.(*net.TCPConn), bufio.NewReaderSize(c, 16)
}

// upgrade are the lines of a handshake as it should be.
var upgrade = []string{"Host: SELF", "Connection: keep-alive, Upgrade", "Upgrade: WebSocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw=="}

// status is the status of the answer to a handshake, and its head.
func (p *place) status(path string, lines ...string) (int, http.Header) {
	p.t.Helper()
	c, in := p.raw(path, lines...)
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	a, err := http.ReadResponse(in, &http.Request{Method: "GET"})
	if err != nil {
		p.t.Fatal(fmt.Errorf("%q: %w", lines, err))
	}
	defer a.Body.Close()
	return a.StatusCode, a.Header
}
