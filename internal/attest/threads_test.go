package attest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// status is what the kernel writes of a sealed thread, as far as it is read.
const status = `Name:	init
NStgid:	4242	17	1
Uid:	70001	70001	70001	70001
SigCgt:	0000000000000000
CapInh:	0000000000000000
CapPrm:	0000000000000000
CapEff:	0000000000000000
CapAmb:	0000000000000000
NoNewPrivs:	1
Seccomp:	2
`

// Each thing that a thread may lack is seen by itself, on any of the threads, and only where it is wanted.
//
// proves part of H-22 O-27
func TestThreads(t *testing.T) {
	all := Want{Seccomp: true, Privileges: true, Signals: true, First: true, GuestUID: 70001}
	for name, c := range map[string]struct {
		old, new string
		want     Want
		err      string
	}{
		"sealed":            {"", "", all, ""},
		"no filter":         {"Seccomp:	2", "Seccomp:	0", all, "not under a filter"},
		"strict mode":       {"Seccomp:	2", "Seccomp:	1", all, "not under a filter"},
		"no line":           {"Seccomp:	2\n", "", all, "not under a filter"},
		"not wanted":        {"Seccomp:	2", "Seccomp:	0", Want{Privileges: true, GuestUID: -1}, ""},
		"effective":         {"CapEff:	0000000000000000", "CapEff:	0000000000000001", all, "has capabilities"},
		"permitted":         {"CapPrm:	0000000000000000", "CapPrm:	0000000000200000", all, "has capabilities"},
		"inheritable":       {"CapInh:	0000000000000000", "CapInh:	8000000000000000", all, "has capabilities"},
		"ambient":           {"CapAmb:	0000000000000000", "CapAmb:	0000000000000010", all, "has capabilities"},
		"caps not wanted":   {"CapEff:	0000000000000000", "CapEff:	0000000000000001", Want{Seccomp: true, GuestUID: -1}, ""},
		"new privileges":    {"NoNewPrivs:	1", "NoNewPrivs:	0", all, "may gain privileges"},
		"handler":           {"SigCgt:	0000000000000000", "SigCgt:	0000000000000400", all, "has signal handlers"},
		"not the first":     {"4242	17	1", "4242	17	2", all, "no first process"},
		"no namespace":      {"4242	17	1", "1", all, "no first process"},
		"a line less":       {"NStgid:	4242	17	1\n", "", all, "no first process"},
		"first not wanted":  {"4242	17	1", "4242	17", Want{Seccomp: true, GuestUID: -1}, ""},
		"another uid":       {"70001	70001	70001	70001", "0	0	0	0", all, "no thread has the guest's uid"},
		"saved uid":         {"70001	70001	70001	70001", "70001	70001	0	70001", all, "no thread has the guest's uid"},
		"uid not looked at": {"70001	70001	70001	70001", "0	0	0	0", Want{Seccomp: true, GuestUID: -1}, ""},
	} {
		odd := strings.Replace(status, c.old, c.new, 1)
		if c.old != "" && odd == status {
			t.Fatalf("%s: %q is not in the status", name, c.old)
		}
		// The odd thread is the last of three; the uid must be wrong on all to count.
		first := status
		if strings.Contains(c.err, "uid") {
			first = odd
		}
		w := witnessOf(t, first, first, odd)
		err := w.Threads(c.want)
		w.Close()
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
	}
}

// witnessOf is a Witness of threads with these status files.
func witnessOf(t *testing.T, files ...string) *Witness {
	t.Helper()
	w := &Witness{dir: -1}
	for i, text := range files {
		path := filepath.Join(t.TempDir(), "status")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		w.tasks = append(w.tasks, task{strconv.Itoa(i), fd})
	}
	return w
}

// limits is how the kernel writes them.
const limits = `Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max core file size        0                    0                    bytes     
Max locked memory         65536                65536                bytes     
Max file locks            1024                 1024                 locks     
Max pending signals       128                  128                  signals   
Max msgqueue size         0                    0                    bytes     
Max nice priority         0                    0                    
Max realtime priority     0                    0                    
Max realtime timeout      unlimited            unlimited            us        
`

// Each limit that init sets is seen from outside, and a text in which one cannot
// be read is no proof. This process's own limits are no cell's.
//
// proves part of H-22
func TestCheckLimits(t *testing.T) {
	none, one := new(uint64), uint64(1)
	if err := checkLimits(limits, none); err != nil {
		t.Error(err)
	}
	lower := strings.Replace(limits, "128                  128", "12                   12 ", 1)
	if err := checkLimits(lower, none); err != nil {
		t.Error("lower:", err)
	}
	for old, now := range map[string]string{
		"file size        0                    0":      "file size        0                    1",
		"65536                65536":                   "65536                unlimited",
		"1024                 1024":                    "1024                 4096",
		"128                  128":                     "128                  100000",
		"msgqueue size         0                    0": "msgqueue size         0                    819200",
		"nice priority         0                    0": "nice priority         0                    20",
		"realtime priority     0                    0": "realtime priority     0                    99",
		"Max pending signals ":                         "Max signals of later ",
	} {
		odd := strings.Replace(limits, old, now, 1)
		if odd == limits {
			t.Fatalf("%q is not there", old)
		}
		if err := checkLimits(odd, none); err == nil {
			t.Errorf("%q was accepted", now)
		}
	}
	if err := checkLimits(limits, &one); err == nil {
		t.Error("0 was taken for 1")
	}
	high := strings.Replace(limits, "size        0                    0", "size        0                    9", 1)
	if err := checkLimits(high, nil); err != nil {
		t.Errorf("without one for cores: %v", err)
	}
	if err := checkLimits("", nil); err == nil {
		t.Error("nothing was accepted")
	}
	dir, err := unix.Open("/proc/self", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := &Witness{dir: dir}
	defer w.Close()
	if err := w.Limits(nil); err == nil {
		t.Error("the limits of this process were taken for those of a cell")
	}
}
