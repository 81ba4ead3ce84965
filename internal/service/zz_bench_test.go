package service_test

import (
	"testing"
	"net/http"
	"strings"
	"io"
	"net"
	"path/filepath"

	"github.com/glovebox-dev/glovebox/internal/service"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

func BenchmarkWait(b *testing.B) {
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	o := service.Options{Dir: filepath.Join(b.TempDir(), "d"), Listeners: []net.Listener{l}}
	o.Box.InitPath = testenv.Init()
	s, err := service.Open(b.Context(), o)
	if err != nil { b.Fatal(err) }
	defer s.Close()
	url := "http://"+l.Addr().String()+"/v1/runs?wait=20s"
	for b.Loop() {
		a, err := http.Post(url, "application/json", strings.NewReader(`{"command":["/bin/true"]}`))
		if err != nil || a.StatusCode != 200 { b.Fatal(err, a.StatusCode) }
		io.Copy(io.Discard, a.Body); a.Body.Close()
	}
}
