package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

func TestMain(m *testing.M) {
	if said := os.Getenv(poisonVar); said != "" {
		if err := dies(said); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testenv.Deselect()
	code := m.Run()
	shared.Lock()
	if shared.box != nil {
		if err := shared.box.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// shared is the Box of all tests but those that close theirs.
var shared struct {
	sync.Mutex
	box *glovebox.Box
}

func newBox(t testing.TB, languages ...string) *glovebox.Box {
	t.Helper()
	b, err := glovebox.New(glovebox.Options{InitPath: testenv.Init(), CacheDir: testenv.Cache(), Languages: languages})
	must(t, err)
	return b
}

func sharedBox(t testing.TB) *glovebox.Box {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.box == nil {
		shared.box = newBox(t)
	}
	return shared.box
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is a queue and an executor of it.
type fixture struct {
	*Executor
	q    *queue.Queue
	ends chan End
	quit func()
}

// openQueue opens a queue in a folder of the test's own.
func openQueue(t testing.TB, o queue.Options) *queue.Queue {
	t.Helper()
	if o.Dir == "" && o.URL == "" {
		o.Dir = filepath.Join(t.TempDir(), "queue")
	}
	if o.MinFree == 0 {
		o.MinFree = 1
	}
	q, err := queue.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, q.Close()) })
	return q
}

// start starts an executor for a test; it is drained after it.
func start(t testing.TB, q *queue.Queue, o Options) *fixture {
	t.Helper()
	f := &fixture{q: q, ends: make(chan End, 1000)}
	o.Queue = q
	if o.Box == nil {
		o.Box = sharedBox(t)
	}
	if o.Slots == 0 {
		o.Slots = 2
	}
	o.Ended = func(e End) { f.ends <- e }
	f.Executor = Start(o)
	f.quit = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := f.Drain(ctx); err != nil {
			t.Error("not drained:", err)
		}
	})
	t.Cleanup(f.quit)
	return f
}

// submit submits a program, and returns its id.
func submit(t testing.TB, q *queue.Queue, id string, p api.Program, note Note) string {
	t.Helper()
	program, err := json.Marshal(p)
	must(t, err)
	data, err := json.Marshal(note)
	must(t, err)
	must(t, q.Submit(t.Context(), queue.Job{ID: id, Client: "c", Program: program, Note: data}))
	return id
}

// history are the events of a run to its end.
func history(t testing.TB, q *queue.Queue, id string) (all []queue.Event, result *api.Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for e, err := range q.Events(ctx, id, 0) {
		must(t, err)
		if n := len(all); n > 0 && (all[n-1].Seq >= e.Seq || all[n-1].Final) {
			t.Errorf("event %d %q comes behind %d %q", e.Seq, e.Type, all[n-1].Seq, all[n-1].Type)
		}
		all = append(all, e)
	}
	last := all[len(all)-1]
	if !last.Final {
		t.Fatalf("%s has no final event", id)
	}
	data, err := q.Data(ctx, id, last)
	must(t, err)
	result = new(api.Result)
	must(t, json.Unmarshal(data, result))
	if result.ID != id {
		t.Errorf("the result of %s is that of %s", id, result.ID)
	}
	return all, result
}

// types are those of events, each kind of neighbours once.
func types(all []queue.Event) string {
	var b []string
	for _, e := range all {
		if e.Type != "stats" && (len(b) == 0 || b[len(b)-1] != e.Type) {
			b = append(b, e.Type)
		}
	}
	return strings.Join(b, " ")
}

// streamed is what the chunks of a stream come to.
func streamed(t testing.TB, q *queue.Queue, id string, all []queue.Event, stream string) string {
	t.Helper()
	var b strings.Builder
	for _, e := range all {
		if e.Type != "chunk" {
			continue
		}
		var c api.Event
		data, err := q.Data(t.Context(), id, e)
		must(t, err)
		must(t, json.Unmarshal(data, &c))
		if c.Stream == stream {
			b.WriteString(c.Data + whole(t, "", c.Base64))
		}
	}
	return b.String()
}

// tell sends a message to a run.
func tell(t testing.TB, q *queue.Queue, id string, m api.ClientFrame) error {
	t.Helper()
	data, err := json.Marshal(m)
	must(t, err)
	return q.Signal(t.Context(), id, data)
}

// until waits for something that is about to be so.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !so(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never:", what)
		}
	}
}

// begun waits until a run has begun.
func begun(t testing.TB, q *queue.Queue, id string) {
	t.Helper()
	until(t, id+" begins", func() bool {
		st, err := q.Status(t.Context(), id)
		must(t, err)
		return st.State == queue.Begun || st.State == queue.Finished
	})
}

// printed waits until a run has printed something.
func printed(t testing.TB, q *queue.Queue, id string) {
	t.Helper()
	for e, err := range q.Events(t.Context(), id, 0) {
		must(t, err)
		if e.Type == "chunk" {
			return
		}
	}
	t.Fatal(id, "has printed nothing")
}

// guests are the processes of this machine that have a word among their arguments.
func guests(t testing.TB, word string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, f := range files {
		if line, err := os.ReadFile(f); err == nil && strings.Contains("\x00"+string(line), "\x00"+word+"\x00") {
			n++
		}
	}
	return n
}
