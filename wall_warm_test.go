package glovebox_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

// secretsPy prints what a process has of its own from its exec on, or of all
// processes that a template forks.
const secretsPy = `
import ctypes, json, os, random, struct, tempfile, uuid
def auxv(kind):
    data = open('/proc/self/auxv', 'rb').read()
    for i in range(0, len(data), 16):
        k, v = struct.unpack('QQ', data[i:i+16])
        if k == kind: return v
def base(name):
    for line in open('/proc/self/maps'):
        if line.rstrip().endswith(name): return line.split('-')[0]
def secrets():
    return {'at_random': ctypes.string_at(auxv(25), 16).hex(), 'canary': ctypes.string_at(auxv(25), 8).hex(), 'vdso': hex(auxv(33)), 'stack': base('[stack]'), 'heap': base('[heap]'),
        'libc': base('libc.so.6'), 'hash': hash('x'), 'random': random.random(), 'uuid': str(uuid.uuid4()), 'temporary': tempfile.mktemp(), 'getrandom': os.getrandom(8).hex()}
`

// few may come twice by chance: the kernel gives them few bits (8,192 places for a
// heap).
var fewBits = map[string]int{"heap": 3}

// TestNothingSharedByCells: every cell is made by exec, armed or not: no two have the
// same stack protector, places in memory, hash seed or random numbers. Processes
// that one interpreter forks have: that is the control.
//
// proves H-34
func TestNothingSharedByCells(t *testing.T) {
	o := options()
	o.Armed = 4
	b := newBox(t, o)
	const cells = 40
	seen := map[string]map[string]int{}
	count := func(line string) {
		var all map[string]any
		if err := json.Unmarshal([]byte(line), &all); err != nil || len(all) != 11 {
			t.Fatalf("%q: %v", line, err)
		}
		for name, v := range all {
			text, err := json.Marshal(v)
			if err != nil || string(text) == "null" {
				t.Fatalf("%s is %s", name, text)
			}
			if seen[name] == nil {
				seen[name] = map[string]int{}
			}
			seen[name][string(text)]++
		}
	}
	warm := 0
	for range cells {
		r := run(t, b, glovebox.Program{Language: "python", Source: secretsPy + "print(json.dumps(secrets()))"})
		if r.Verdict != api.OK {
			t.Fatal(r.Verdict, r.Stderr)
		}
		if r.Warm {
			warm++
		}
		count(r.Stdout)
	}
	for name, values := range seen {
		if len(values) < cells-fewBits[name] {
			t.Errorf("%s: %d values in %d cells", name, len(values), cells)
		}
	}
	if warm == 0 {
		t.Error("no cell was armed")
	}
	const fork = `
for _ in range(4):
    if os.fork() == 0:
        print(json.dumps(secrets())); os._exit(0)
    os.wait()
`
	seen = map[string]map[string]int{}
	r := run(t, b, glovebox.Program{Language: "python", Source: "import sys\n" + secretsPy + strings.Replace(fork, "os._exit", "sys.stdout.flush(); os._exit", 1)})
	for line := range strings.Lines(r.Stdout) {
		count(line)
	}
	for _, name := range []string{"at_random", "stack", "libc", "vdso", "hash"} {
		if len(seen[name]) != 1 {
			t.Errorf("the control: forked processes have %d values of %s", len(seen[name]), name)
		}
	}
}
