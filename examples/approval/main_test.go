package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// TestApprovalAsRoot: three programs after each other; the payment is made once,
// for the approval of this very call alone.
//
// proves part of T-15
func TestApprovalAsRoot(t *testing.T) {
	program := testenv.Built(t, "./examples/approval")
	dir, other := t.TempDir(), t.TempDir()
	payments := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "payments"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(text)
	}
	refused := func(why string, args ...string) {
		t.Helper()
		var exit *exec.ExitError
		if _, err := exec.Command(program, args...).Output(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(exit.Stderr), why) {
			t.Errorf("%v: %v", args, err)
		}
	}
	approval := regexp.MustCompile(`(?s)^payments\.send\("Landlord Ltd", 125000\)\napproval ([0-9a-f]{64})\n$`)
	hash := map[string]string{}
	for _, d := range []string{dir, other} {
		testenv.Output(t, program, "start", d)
		found := approval.FindStringSubmatch(testenv.Output(t, program, "show", d))
		if found == nil {
			t.Fatal("no approval is asked for")
		}
		hash[d] = found[1]
	}
	changed := hash[dir][1:] + hash[dir][:1]
	refused("what was approved is another call", "resume", dir, changed)
	refused("what was approved is another call", "resume", dir, hash[other])
	refused("must be that of the call", "resume", dir)
	if got := payments(); got != "" {
		t.Fatalf("it was paid: %q", got)
	}
	want := fmt.Sprintf("result: {\"receipt\":\"paid 125000 to Landlord Ltd\",\"before\":%d,\"after\":%d}\n", 200_000, 200_000-125_000)
	if got := testenv.Output(t, program, "resume", dir, hash[dir]); got != want {
		t.Errorf("%q, not %q", got, want)
	}
	refused("nothing waits", "resume", dir, hash[dir])
	if got := payments(); !regexp.MustCompile(`^[0-9a-f]{32} 125000\n$`).MatchString(got) {
		t.Errorf("payments: %q", got)
	}
}
