package words

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCount(t *testing.T) {
	for _, is := range []struct {
		text string
		want int
	}{{"", 0}, {"a glove in a box", 5}} {
		t.Run(is.text, func(t *testing.T) {
			t.Parallel()
			if got := Count(is.text); got != is.want {
				t.Errorf("got %d, want %d", got, is.want)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	if err := os.WriteFile(filepath.Join(t.TempDir(), "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFails(t *testing.T) {
	t.Log("as it should")
	t.Fail()
}

func BenchmarkCount(b *testing.B) {
	for range b.N {
		Count("a b c")
	}
}
