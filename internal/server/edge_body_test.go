package server_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/service"
)

// accepted is a body that is accepted, and what it is the length of.
const accepted = `{"command":["/bin/true"]}`

// post is a submission over a raw connection, with these lines in its head.
func (s *site) post(lines, body string) string {
	return "POST /v1/runs HTTP/1.1\r\nHost: " + s.addr + "\r\nContent-Type: application/json\r\n" + lines + "\r\n" + body
}

// Whatever a request says of the length of its body, nothing of a body is taken for a
// request, and nothing of a request for a body: the connection ends where two readers
// could differ.
//
// proves part of H-77
func TestSmuggling(t *testing.T) {
	s := shared(t)
	for name, c := range s.oddBodies("GET /v1/limits HTTP/1.1\r\nHost: " + s.addr + "\r\n\r\n") {
		expect(t, name, s.raw(t, c.text), c.want...)
	}
}

// odd is a request, and what comes of it.
type odd struct {
	text string
	want []string
}

// oddBodies are requests that could be read in more than one way, with another one in
// them or behind them.
func (s *site) oddBodies(inner string) map[string]odd {
	n := func(add int) string { return fmt.Sprint(len(accepted) + add) }
	length := "Content-Length: " + n(0) + "\r\n"
	chunked := "Transfer-Encoding: chunked\r\n"
	chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(accepted), accepted)
	return map[string]odd{
		"control: one length":          {s.post(length, accepted) + inner + s.last(), []string{"202 ok", "200 ok", "200 ok"}},
		"the same length twice":        {s.post(length+length, accepted) + inner + s.last(), []string{"202 ok", "200 ok", "200 ok"}},
		"two lengths":                  {s.post("Content-Length: 0\r\n"+length, accepted) + inner, []string{"400 bare"}},
		"two lengths in one":           {s.post("Content-Length: "+n(0)+", "+n(0)+"\r\n", accepted) + inner, []string{"400 bare"}},
		"a signed length":              {s.post("Content-Length: +"+n(0)+"\r\n", accepted) + inner, []string{"400 bare"}},
		"a negative length":            {s.post("Content-Length: -1\r\n", accepted) + inner, []string{"400 bare"}},
		"a length in hexadecimal":      {s.post("Content-Length: 0x19\r\n", accepted) + inner, []string{"400 bare"}},
		"an endless length":            {s.post("Content-Length: 99999999999999999999\r\n", accepted) + inner, []string{"400 bare"}},
		"a blank in the length":        {s.post("Content-Length: 2 5\r\n", accepted) + inner, []string{"400 bare"}},
		"length and chunks":            {s.post(length+chunked, chunks) + inner, []string{"411 length_required"}},
		"chunks and length":            {s.post(chunked+"Content-Length: 5\r\n", chunks) + inner, []string{"411 length_required"}},
		"chunks":                       {s.post(chunked, chunks) + inner, []string{"411 length_required"}},
		"chunks with extensions":       {s.post(chunked, "19;x=\"\n\"\r\n"+accepted+"\r\n0\r\n\r\n") + inner, []string{"411 length_required"}},
		"chunks with trailers":         {s.post(chunked+"Trailer: Host\r\n", fmt.Sprintf("%x\r\n%s\r\n0\r\nHost: evil.test\r\n\r\n", len(accepted), accepted)) + inner, []string{"411 length_required"}},
		"a last chunk that is none":    {s.post(chunked, "0\r\n") + inner, []string{"411 length_required"}},
		"a huge chunk":                 {s.post(chunked, "ffffffffffffffff\r\n") + inner, []string{"411 length_required"}},
		"chunks to another path":       {"POST /nothing HTTP/1.1\r\nHost: " + s.addr + "\r\n" + chunked + "\r\n" + chunks + inner, []string{"411 length_required"}},
		"CHUNKED":                      {s.post("Transfer-Encoding: CHUNKED\r\n", chunks) + inner, []string{"411 length_required"}},
		"identity":                     {s.post(length+"Transfer-Encoding: identity\r\n", accepted) + inner, []string{"501 bare"}},
		"a coding that is not":         {s.post(length+"Transfer-Encoding: xchunked\r\n", accepted) + inner, []string{"501 bare"}},
		"two codings":                  {s.post(length+"Transfer-Encoding: gzip, chunked\r\n", accepted) + inner, []string{"501 bare"}},
		"the coding twice":             {s.post(chunked+chunked, chunks) + inner, []string{"501 bare"}},
		"chunked after a tab":          {s.post("Transfer-Encoding:\tchunked\r\n", chunks) + inner, []string{"411 length_required"}},
		"chunked after a vertical tab": {s.post(length+"Transfer-Encoding: \x0bchunked\r\n", accepted) + inner, []string{"400 bare"}},
		"a blank before the colon":     {s.post(length+"Transfer-Encoding : chunked\r\n", accepted) + inner, []string{"400 bare"}},
		"a folded line":                {s.post(length+"X: y\r\n Transfer-Encoding: chunked\r\n", accepted) + inner + s.last(), []string{"202 ok", "200 ok", "200 ok"}},
		"a GET with a body":            {"GET /v1/limits HTTP/1.1\r\nHost: " + s.addr + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", len(inner)) + inner + inner, []string{"400 bad_request"}},
		"a DELETE with a body":         {"DELETE /v1/keys/self HTTP/1.1\r\nHost: " + s.addr + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", len(inner)) + inner + inner, []string{"400 bad_request"}},
		"a body to nowhere":            {"POST /nothing HTTP/1.1\r\nHost: " + s.addr + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", len(inner)) + inner + inner, []string{"404 not_found"}},
		"a body of another type":       {"POST /v1/runs HTTP/1.1\r\nHost: " + s.addr + fmt.Sprintf("\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", len(inner)) + inner + inner, []string{"415 unsupported_media"}},
		"a body that is no JSON":       {s.post(fmt.Sprintf("Content-Length: %d\r\n", len(inner)), inner) + s.last(), []string{"400 bad_field", "200 ok"}}, // it was read to its end
		"a body of a foreign page":     {s.post(fmt.Sprintf("Origin: null\r\nContent-Length: %d\r\n", len(inner)), inner) + inner, []string{"403 forbidden"}},
		"a body that is too long":      {s.post("Content-Length: 9000000\r\n", strings.Repeat(inner, 9000000/len(inner)+1)) + inner, []string{"413 too_large"}},
		"no length":                    {s.post("", accepted) + inner, []string{"400 bad_field", "400 bare"}}, // a body of nothing, and a line that is no request
	}
}

// A client that waits for "100 Continue" gets it when its body is wanted, and only then.
func TestExpect(t *testing.T) {
	s := shared(t)
	for name, c := range map[string]struct {
		head string
		want []string
	}{
		"wanted":       {s.post(fmt.Sprintf("Expect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n", len(accepted)), ""), []string{"100 continue", "202 ok"}},
		"another type": {strings.Replace(s.post("Expect: 100-continue\r\nContent-Length: 25\r\n", ""), "application/json", "text/plain", 1), []string{"415 unsupported_media"}},
		"too long":     {s.post("Expect: 100-continue\r\nContent-Length: 100000000\r\n", ""), []string{"413 too_large"}},
		"another host": {strings.Replace(s.post("Expect: 100-continue\r\nContent-Length: 25\r\n", ""), s.addr, "evil.test", 1), []string{"421 misdirected"}},
	} {
		con := s.dial(t)
		if _, err := io.WriteString(con, c.head); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(con)
		first, err := in.Peek(12)
		if err != nil {
			t.Fatal(err)
		}
		if string(first) == "HTTP/1.1 100" {
			if _, err := io.WriteString(con, accepted); err != nil {
				t.Fatal(err)
			}
		} else {
			_ = con.CloseWrite() // the body does not come
		}
		var got []string
		for {
			if _, err := in.Peek(1); err != nil {
				break
			}
			got = append(got, s.one(t, in, ""))
		}
		expect(t, name, got, c.want...)
	}
}

// The content types of case 133, and a compressed body.
//
// proves X-12
func TestContentTypes(t *testing.T) {
	s := shared(t)
	for _, c := range []struct {
		lines string
		want  string
	}{
		{"Content-Type: text/plain", "415 unsupported_media"},
		{"Content-Type: application/x-www-form-urlencoded", "415 unsupported_media"},
		{"Content-Type: multipart/form-data; boundary=x", "415 unsupported_media"},
		{"Content-Type: ", "415 unsupported_media"},
		{"X: y", "415 unsupported_media"},
		{"Content-Type: application/json", "202 ok"},
		{"Content-Type: application/json; charset=utf-8", "202 ok"},
		{"Content-Type: Application/JSON;charset=\"UTF-8\"", "202 ok"},
		{"Content-Type: application/json; charset=utf-7", "415 unsupported_media"},
		{"Content-Type: application/json; charset=utf-8; x=y", "415 unsupported_media"},
		{"Content-Type: application/json; x=y", "415 unsupported_media"},
		{"Content-Type: application/json, text/plain", "415 unsupported_media"},
		{"Content-Type: application/jsonp", "415 unsupported_media"},
		{"Content-Type: text/json", "415 unsupported_media"},
		{"Content-Type: application/json\r\nContent-Type: application/json", "415 unsupported_media"},
		{"Content-Type: application/json\r\nContent-Encoding: gzip", "415 unsupported_media"},
		{"Content-Type: application/json\r\nContent-Encoding: identity", "415 unsupported_media"},
		{"Content-Type: application/json\r\nContent-Encoding: \r\nContent-Encoding: gzip", "415 unsupported_media"},
	} {
		text := "POST /v1/runs HTTP/1.1\r\nHost: " + s.addr + "\r\nConnection: close\r\n" + c.lines + fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", len(accepted)) + accepted
		expect(t, c.lines, s.raw(t, text), c.want)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(w, accepted)
	_ = w.Close()
	if a := s.ask(t, "POST", "/v1/runs", zipped.String(), "Content-Encoding", "gzip"); a.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := s.ask(t, "POST", "/v1/runs", zipped.String()); a.StatusCode != http.StatusBadRequest { // the bytes alone
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// Case 139: 3 MiB of source run; 100 MiB are refused, whatever they are said to be, and
// a client that sends everything before it reads finds the answer. The service keeps
// nothing of them.
//
// proves part of X-12
func TestCase139AsRoot(t *testing.T) {
	s := shared(t)
	source := "x = '''" + strings.Repeat("y", 3<<20) + "'''\nprint('tail')"
	if a := s.ask(t, "POST", "/v1/runs?wait=50s", api.Submission{Program: api.Program{Language: "python", Source: source}}); a.StatusCode != 200 || a.run(t).Result.Stdout != "tail\n" {
		t.Errorf("%d %.300s", a.StatusCode, a.body)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	piece := bytes.Repeat([]byte("y"), 1<<20)
	for _, kind := range []string{"application/json", "text/plain", "multipart/form-data; boundary=x", ""} {
		con := s.dial(t)
		if _, err := fmt.Fprintf(con, "POST /v1/runs HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", s.addr, kind, 100*len(piece)); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if _, err := con.Write(piece); err != nil {
				t.Fatalf("the client cannot send it: %v", err)
			}
		}
		expect(t, kind, s.answers(t, con, "POST"), "413 too_large")
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 32<<20 {
		t.Errorf("400 MiB of refused bodies took %d MiB", grown>>20)
	}
}

// What a client that is slow sends of a refused body is not read for ever.
func TestRefusedSlowly(t *testing.T) {
	t.Parallel()
	s := shared(t)
	began := time.Now()
	got, _ := s.timed(t, s.post("Content-Length: 100000000\r\n", "{"))
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the connection was kept for %v", took)
	}
	expect(t, "413", got, "413 too_large")
}

// Cases 137 and 138: JSON that is deep or odd has one clear answer.
//
// proves part of H-54
func TestOddJSONAsRoot(t *testing.T) {
	s := shared(t)
	deep := strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)
	for name, c := range map[string]struct{ body, want, field string }{
		"137":                  {`{"language":"python","source":"1","meta":` + deep + `}`, "400 bad_field", ""},
		"137 in args":          {`{"language":"python","source":"1","args":` + deep + `}`, "400 bad_field", ""},
		"137 in limits":        {`{"language":"python","source":"1","limits":` + strings.Repeat(`{"compile":`, 10_000) + `1` + strings.Repeat("}", 10_000) + `}`, "400 bad_field", ""},
		"a key twice":          {`{"language":"python","language":"bash","source":"echo $0"}`, "400 bad_field", "language"},
		"a key in capitals":    {`{"LANGUAGE":"python","source":"1"}`, "400 bad_field", "LANGUAGE"},
		"a key that folds":     {`{"ſource":"1","language":"python"}`, "400 bad_field", `\u017fource`},
		"lone surrogate":       {`{"language":"python","source":"print(1)#\ud800"}`, "400 bad_field", "source"},
		"no source":            {`{"language":"python","source":""}`, "400 bad_field", ""},
		"null":                 {`{"language":"python","source":null}`, "400 bad_field", ""},
		"an unknown key":       {`{"language":"python","sauce":"1"}`, "400 bad_field", "sauce"},
		"two values":           {`{"language":"python","source":"1"}{}`, "400 bad_field", ""},
		"a mark of order":      {"\ufeff" + `{"language":"python","source":"1"}`, "400 bad_field", ""},
		"a number as 1e3":      {`{"language":"python","source":"1","limits":{"wall_ms":1e3}}`, "400 bad_field", "limits.wall_ms"},
		"a language as PYTHON": {`{"language":"PYTHON","source":"1"}`, "400 bad_field", "language"},
		"a path as language":   {`{"language":"../../bin/sh","source":"1"}`, "400 bad_field", "language"},
		"a list":               {`[]`, "400 bad_field", ""},
		"a string":             {`"x"`, "400 bad_field", ""},
		"nothing":              {``, "400 bad_field", ""},
		"null alone":           {`null`, "400 bad_field", ""},
		"not UTF-8":            {"{\"language\":\"python\",\"source\":\"\xff\"}", "400 bad_field", "source"},
		"a NUL":                {`{"language":"bash","source":"echo a\u0000b"}`, "200 ok", ""},
		"a field of operators": {`{"language":"python","source":"1","profile":"compile"}`, "400 bad_field", "profile"},
		"another isolation":    {`{"language":"python","source":"1","isolation":"none"}`, "400 bad_field", "isolation"},
		"control":              {`{"language":"python","source":"print('é\u00e9')"}`, "200 ok", ""},
	} {
		a := s.ask(t, "POST", "/v1/runs?wait=30s", c.body)
		got := fmt.Sprintf("%d %s", a.StatusCode, a.code())
		if a.StatusCode == http.StatusOK {
			got = "200 ok"
		}
		var e api.ErrorBody
		_ = json.Unmarshal(a.body, &e)
		if got != c.want || c.field != "" && !strings.Contains(e.Error.Field, c.field) {
			t.Errorf("%s: %s %.300s, want %s %q", name, got, a.body, c.want, c.field)
		}
		if len(a.body) > 2048 && a.StatusCode != http.StatusOK {
			t.Errorf("%s: an answer of %d bytes", name, len(a.body))
		}
	}
	if a := s.ask(t, "POST", "/v1/runs?wait=30s", `{"language":"python","source":"print('a\u0000b')"}`); a.StatusCode != http.StatusOK || a.run(t).Result.Verdict == api.SetupFailed {
		t.Errorf("NUL in a source: %d %s", a.StatusCode, a.body)
	}
}

// Case 130: what of an environment steers the start of programs reaches the guest
// alone; bad names are refused; nothing of the service's own is there.
func TestCase130AsRoot(t *testing.T) {
	t.Setenv("GLOVEBOX_TEST_SECRET", "of the service")
	s := alone(t, service.Options{})
	env := map[string]string{"LD_AUDIT": "/box/a.so", "BASH_ENV": "/box/e.sh", "PYTHONSTARTUP": "/box/s.py", "PYTHONPATH": "/box", "NODE_OPTIONS": "--require /box/r.js",
		"GOFLAGS": "-toolexec=/box/t", "GCC_EXEC_PREFIX": "/box/", "TMPDIR": "/proc", "HOME": "/etc", "IFS": "x", "LD_LIBRARY_PATH": "/box", "LD_PRELOAD": "/box/x.so", "PATH": ""}
	sub := api.Submission{Program: api.Program{Command: []string{"/usr/bin/env"}, Env: env}}
	a := s.ask(t, "POST", "/v1/runs?wait=30s", sub)
	if a.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	r := a.run(t).Result
	if r.Verdict != api.OK || strings.Contains(r.Stdout, "SECRET") || strings.Contains(r.Stdout, os.Getenv("GLOVEBOX_TEST_SECRET")) {
		t.Errorf("%s %q %q", r.Verdict, r.Stdout, r.Stderr)
	}
	for k, v := range env {
		if !strings.Contains("\n"+r.Stdout, "\n"+k+"="+v+"\n") {
			t.Errorf("%s is not %q: %s", k, v, r.Stdout)
		}
	}
	for name, field := range map[string]string{`{"A=B":"c"}`: "env", `{"":"e"}`: "env", `{"NUL\u0000":"x"}`: "env", `{"X":"a\u0000b"}`: "env"} {
		a := s.ask(t, "POST", "/v1/runs", `{"language":"bash","source":"env | sort\n","env":`+name+`}`)
		var e api.ErrorBody
		if err := json.Unmarshal(a.body, &e); err != nil || a.StatusCode != http.StatusBadRequest || !strings.HasPrefix(e.Error.Field, field) {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
}
