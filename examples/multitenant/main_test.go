package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// serve starts the program and returns its address and what ends it.
func serve(t *testing.T, program, dir string) (address string, stop func()) {
	t.Helper()
	cmd := exec.Command(program, dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(address), stop
}

// say sends code to a conversation; the answer is its result as JSON, or the status.
func say(t *testing.T, address, token, id, code string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", address+"/conversations/"+id, strings.NewReader(code))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	var answer struct {
		Status string          `json:"status"`
		Result json.RawMessage `json:"result"`
		Error  string          `json:"error"`
	}
	if res.StatusCode != http.StatusOK || json.Unmarshal(body, &answer) != nil {
		return fmt.Sprint(res.StatusCode)
	}
	if answer.Error != "" {
		return answer.Error
	}
	return string(answer.Result)
}

// TestTenantsAsRoot: two tenants talk at the same time in a conversation of the same
// id, and each has its own numbers only, also behind a restart of the server.
//
// proves part of T-15
func TestTenantsAsRoot(t *testing.T) {
	dir := t.TempDir()
	tokens := map[string]string{"acme": "token-of-acme-000", "globex": "token-of-globex-1"}
	text := ""
	for name, token := range tokens {
		text += name + " " + token + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "tokens"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	program := testenv.Built(t, "./examples/multitenant")
	address, stop := serve(t, program, dir)
	sums := map[string]int{}
	var all sync.WaitGroup
	for name, token := range tokens {
		sums[name] = 0
		var numbers []int
		for i := range 10 {
			numbers = append(numbers, len(name)*100+i)
			sums[name] += len(name)*100 + i
		}
		all.Go(func() {
			for _, n := range numbers {
				say(t, address, token, "same", fmt.Sprintf("globalThis.sum = (globalThis.sum ?? 0) + %d", n))
			}
		})
	}
	all.Wait()
	if got := say(t, address, "token-of-nobody-00", "same", "sum"); got != "401" {
		t.Errorf("a stranger gets %s", got)
	}
	if got := say(t, address, tokens["acme"], "other", "sum"); got != "Can't find variable: sum" {
		t.Errorf("another conversation has %s", got)
	}
	stop()
	address, _ = serve(t, program, dir)
	for name, token := range tokens {
		if got := say(t, address, token, "same", "sum"); got != fmt.Sprint(sums[name]) {
			t.Errorf("%s has %s, not %d", name, got, sums[name])
		}
	}
}
