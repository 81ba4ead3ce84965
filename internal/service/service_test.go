package service_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/service"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// open starts a service on loopback.
func open(t *testing.T, o service.Options) (*service.Service, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "data")
	}
	o.Listeners, o.Box.InitPath = []net.Listener{l}, testenv.Init()
	s, err := service.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, "http://" + l.Addr().String()
}

// ask makes a request and decodes its answer.
func ask(t *testing.T, method, url string, body any, into any, head ...string) *http.Response {
	t.Helper()
	var text io.Reader
	if s, ok := body.(string); ok {
		text = strings.NewReader(s)
	} else if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, text)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatalf("%s %s: %d %s: %v", method, url, a.StatusCode, data, err)
		}
	}
	return a
}

func TestRun(t *testing.T) {
	_, url := open(t, service.Options{})
	var run api.Run
	a := ask(t, "POST", url+"/v1/runs?wait=20s", api.Submission{Program: glovebox.Program{Language: "python", Source: "print(6 * 7)\nopen('a b.txt','w').write('left')\n", Artifacts: []string{"*.txt"}}}, &run)
	if a.StatusCode != 200 || run.State != api.RunFinished || run.Result.Verdict != api.OK || run.Result.Stdout != "42\n" || run.Result.ID != run.ID {
		t.Fatalf("%d %+v %+v", a.StatusCode, run, run.Result)
	}
	var again api.Run
	if a := ask(t, "GET", url+"/v1/runs/"+run.ID, nil, &again); a.StatusCode != 200 || again.OwnerToken != "" || again.Result.Stdout != "42\n" {
		t.Errorf("%d %+v", a.StatusCode, again)
	}
	for _, l := range run.Result.Evidence.Layers {
		if !l.Applied && l.Name != "speculation" && l.Name != "time" || l.Detail != "" {
			t.Errorf("%+v", l)
		}
	}
	if len(run.Result.Evidence.Layers) < 10 {
		t.Errorf("%+v", run.Result.Evidence)
	}
	if len(run.Result.Artifacts) != 1 {
		t.Fatalf("%+v", run.Result)
	}
	if a := ask(t, "GET", url+run.Result.Artifacts[0].URL, nil, nil); a.StatusCode != 200 || a.ContentLength != 4 {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
}

func TestInteractive(t *testing.T) {
	_, url := open(t, service.Options{})
	var run api.Run
	a := ask(t, "POST", url+"/v1/runs", api.Submission{Program: glovebox.Program{Command: []string{"/bin/cat"}, Stdin: []byte("one\n")}, Interactive: true}, &run)
	if a.StatusCode != 202 || run.OwnerToken == "" {
		t.Fatalf("%d %+v", a.StatusCode, run)
	}
	for {
		a := ask(t, "POST", url+"/v1/runs/"+run.ID+"/stdin", api.StdinBody{Data: "two\n"}, nil, "Glovebox-Owner", run.OwnerToken)
		if a.StatusCode == 202 {
			break
		}
		if a.StatusCode != 409 {
			t.Fatal(a.StatusCode)
		}
	}
	ask(t, "POST", url+"/v1/runs/"+run.ID+"/stdin", api.StdinBody{Close: true}, nil, "Glovebox-Owner", run.OwnerToken)
	if a := ask(t, "GET", url+"/v1/runs/"+run.ID+"?wait=20s", nil, &run); a.StatusCode != 200 || run.Result == nil || run.Result.Stdout != "one\ntwo\n" {
		t.Errorf("%d %+v", a.StatusCode, run)
	}
}

func TestCancel(t *testing.T) {
	_, url := open(t, service.Options{})
	var run api.Run
	ask(t, "POST", url+"/v1/runs", api.Submission{Program: glovebox.Program{Command: []string{"/bin/sleep", "9"}}}, &run)
	if a := ask(t, "DELETE", url+"/v1/runs/"+run.ID, nil, nil); a.StatusCode != 401 {
		t.Error(a.StatusCode)
	}
	ask(t, "DELETE", url+"/v1/runs/"+run.ID, nil, nil, "Glovebox-Owner", run.OwnerToken)
	if a := ask(t, "GET", url+"/v1/runs/"+run.ID+"?wait=20s", nil, &run); a.StatusCode != 200 || run.Result == nil || run.Result.Verdict != api.Canceled {
		t.Errorf("%d %+v", a.StatusCode, run)
	}
}
