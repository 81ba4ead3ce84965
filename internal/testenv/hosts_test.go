package testenv

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What has a part in its name is left out by go test itself, whole tests and
// parts of tests, whichever part comes first.
//
// proves part of T-17
func TestSkipPattern(t *testing.T) {
	if os.Getenv("GLOVEBOX_TEST_SKIP") != "" {
		t.Fatal("the child runs one test")
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=TestSample", "-test.skip="+SkipPattern([]string{"AsA", "OnB", "OnC"}))
	cmd.Env = append(os.Environ(), "GLOVEBOX_TEST_SKIP=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"TestSampleAsA", "TestSampleOnB", "TestSampleOnC", "TestSample/OnC"} {
		if strings.Contains(string(out), "=== RUN   "+name+"\n") {
			t.Errorf("%s ran", name)
		}
	}
	for _, name := range []string{"TestSample", "TestSample/any"} {
		if !strings.Contains(string(out), "=== RUN   "+name+"\n") {
			t.Errorf("%s did not run", name)
		}
	}
}

func TestSampleAsA(t *testing.T) {}
func TestSampleOnB(t *testing.T) {}
func TestSampleOnC(t *testing.T) {}
func TestSample(t *testing.T) {
	t.Run("any", func(*testing.T) {})
	t.Run("OnC", func(*testing.T) {})
}
