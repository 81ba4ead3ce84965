// Generics, goroutines, maps, sorting, text, JSON, files, processes, time.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/template"
	"time"
)

type number interface{ ~int | ~float64 }

func sum[T number](list ...T) (total T) {
	for _, v := range list {
		total += v
	}
	return total
}

func transform[T, R any](list []T, f func(T) R) []R {
	var out []R
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}

type stack[T any] struct{ items []T }

func (s *stack[T]) push(v T) { s.items = append(s.items, v) }

func (s *stack[T]) all(yield func(int, T) bool) {
	for i, v := range slices.Backward(s.items) {
		if !yield(i, v) {
			return
		}
	}
}

func values() {
	fmt.Println(sum(1, 2, 3), sum(0.5, 0.25), transform([]int{1, 2}, func(n int) string { return strings.Repeat("x", n) }))
	s := &stack[string]{}
	s.push("a")
	s.push("b")
	for i, v := range s.all {
		fmt.Print(i, v, " ")
	}
	m := map[string]int{"one": 1, "two": 2, "three": 3}
	fmt.Println(slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Compare(m[a], m[b]) }))
	var back struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	fmt.Println(json.Unmarshal([]byte(`{"name":"→ é","tags":["a"]}`), &back), back)
	template.Must(template.New("t").Parse("{{range .}}<{{.}}>{{end}}\n")).Execute(os.Stdout, []int{1, 2})
	fmt.Println(regexp.MustCompile(`(\w+)@(\w+)`).ReplaceAllString("me@box", "$2 $1"), fmt.Sprintf("%x", sha256.Sum256(nil))[:8])
}

func concurrency() {
	var wg sync.WaitGroup
	var n atomic.Int64
	ch := make(chan int, 10)
	for i := range 100 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			n.Add(int64(i))
			ch <- i
		}()
	}
	go func() { wg.Wait(); close(ch) }()
	got := 0
	for range ch {
		got++
	}
	fmt.Println("goroutines", n.Load(), got, runtime.GOMAXPROCS(0))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	select {
	case <-ctx.Done():
		fmt.Println(ctx.Err())
	case <-time.After(10 * time.Second):
		fmt.Println("late")
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	fmt.Println(<-c)
	defer func() { fmt.Println("recovered:", recover()) }()
	var list []int
	_ = list[len(os.Args)]
}

func system() {
	u, err := user.Current()
	fmt.Println(u.Username, u.HomeDir, err, time.Local, os.TempDir())
	cmd := exec.Command("sh", "-c", "cat; echo err >&2; exit 3")
	cmd.Stdin = strings.NewReader("through")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	fmt.Println(out.String(), errs.Len(), errors.As(err, &exit), exit.ExitCode())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	fmt.Println(exec.CommandContext(ctx, "sleep", "60").Run())
	_, err = exec.LookPath("no-such-program")
	fmt.Println(errors.Is(err, exec.ErrNotFound))
	dir, _ := os.MkdirTemp("", "x-*")
	name := filepath.Join(dir, "naïve")
	f, _ := os.Create(name)
	z := gzip.NewWriter(f)
	io.WriteString(z, strings.Repeat("glove ", 1000))
	z.Close()
	f.Close()
	st, _ := os.Stat(name)
	os.Rename(name, filepath.Join(dir, "moved"))
	entries, _ := os.ReadDir(dir)
	fmt.Println(st.Size() < 200, st.Mode(), entries[0].Name(), os.RemoveAll(dir))
	_, err = os.ReadFile("/etc/shadow")
	fmt.Println(errors.Is(err, os.ErrNotExist), os.Args[1:], os.Getenv("GIVEN"))
	in, _ := io.ReadAll(os.Stdin)
	fmt.Printf("%q\n", in)
}

func main() {
	values()
	concurrency()
	system()
}
