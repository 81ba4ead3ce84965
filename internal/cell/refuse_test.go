package cell

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/attest"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

func refuseConfig() Config {
	return Config{Mode: Require, InitPath: testenv.Init(), MaxCells: 4, Max: api.MaxLimits(runtime.NumCPU(), 8<<30)}
}

// openLying opens a Host whose launcher and init leave layers out behind its
// back, and returns what kept it from opening.
func openLying(t *testing.T, layers ...string) string {
	t.Helper()
	cfg := refuseConfig()
	cfg.insideOff = layers
	h, err := Open(cfg)
	if err == nil {
		if err := h.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		return ""
	}
	var s *api.SandboxError
	if !errors.As(err, &s) || !errors.Is(err, api.ErrSandboxUnavailable) {
		t.Errorf("without %v: %v is no SandboxError", layers, err)
	}
	return err.Error()
}

// refusals says for each layer that can be left out inside what the host finds:
// by its own reading of the kernel or by the answer of a probe.
var refusals = []struct {
	layer string
	found string // a regular expression
}{
	{"root", `probe \S+ (got through|was refused)|mount \S+ (is|\S+ not)|not on the list`},
	{"landlock", `probe open-root-dir got through: landlock does not hold`},
	{"seccomp", `probe \S+ .*seccomp|is not under a filter`},
	{"rlimits", `probe raise-core got through: rlimits does not hold`},
	{"privileges", `probe \S+ got through: privileges does not hold`},
	{"dumpable", `probe dumpable got through: dumpable does not hold`},
	{"signals", `has signal handlers`},
	{"procmask", `probe host-\S+ got through: proc does not hold`},
	{"hidepid", `mount /proc shows processes of others`},
	{"cgroup_ns", `probe cgroup-is-root got through: cgroup_ns does not hold`},
	{"pid", `probe pid-is-first got through: namespaces does not hold|the pid namespace is the host's`},
	{"net", `the net namespace is the host's`},
	{"ipc", `the ipc namespace is the host's`},
	{"uts", `the uts namespace is the host's`},
}

// A cell whose init reports success without having applied a layer is refused,
// for each layer in turn, with the stage and the probe or reading that found it;
// with nothing left out, the same host opens.
//
// proves part of T-02 H-22
func TestLyingInitIsRefused(t *testing.T) {
	if why := openLying(t); why != "" {
		t.Fatalf("with every layer: %s", why)
	}
	for _, c := range refusals {
		t.Run(c.layer, func(t *testing.T) {
			why := openLying(t, c.layer)
			if !strings.Contains(why, "attest: ") || !regexp.MustCompile(c.found).MatchString(why) {
				t.Errorf("refused with %q, want attest and %s", why, c.found)
			}
		})
	}
}

// outsideAlone says for each layer what the host finds by its own reading of the
// kernel, where nobody judges the probes; "" for what the kernel shows to nobody
// outside, or in a place that the host does not read.
var outsideAlone = map[string]string{
	"root": "mount ", "seccomp": "is not under a filter", "rlimits": "the hard limit", "privileges": "has capabilities",
	"signals": "has signal handlers", "hidepid": "shows processes of others",
	"pid": "no first process of a pid namespace", "net": "the net namespace is the host's", "ipc": "the ipc namespace is the host's", "uts": "the uts namespace is the host's",
	"landlock": "", "dumpable": "", "procmask": "", "cgroup_ns": "",
}

// The host's own readings find a layer that is missing without the probes inside,
// for all but four, of which nothing can be seen from outside: there the cell is
// taken, so it is the other witness that refuses it in TestLyingInitIsRefused. The
// mode is auto, so that what init says of itself refuses nothing.
//
// proves part of H-22
func TestOutsideWitnessAlone(t *testing.T) {
	for _, c := range refusals {
		t.Run(c.layer, func(t *testing.T) {
			found, ok := outsideAlone[c.layer]
			if !ok {
				t.Fatal("is not in the table")
			}
			cfg := refuseConfig()
			cfg.Mode, cfg.insideOff, cfg.probed = Auto, []string{c.layer}, func([]cellproto.ProbeResult) {}
			h, err := Open(cfg)
			if err == nil {
				_ = h.Close()
			}
			switch {
			case found == "" && err != nil:
				t.Errorf("refused, though nobody judges the probes: %v", err)
			case found != "" && (err == nil || !strings.Contains(err.Error(), found)):
				t.Errorf("%v, want %q", err, found)
			}
		})
	}
}

// Each probe of the table is refused by its own layer and by no other: with
// that layer alone left out its answer is no longer one of those that count.
//
// proves T-05
// proves part of H-20
func TestProbesNameTheirLayer(t *testing.T) {
	for layer, off := range map[string][]string{
		"landlock": {"landlock"}, "seccomp": {"seccomp"}, "rlimits": {"rlimits"}, "privileges": {"privileges"}, "proc": {"procmask"},
		"dumpable": {"dumpable"}, "cgroup_ns": {"cgroup_ns"}, "namespaces": {"pid"},
	} {
		report := armedWithout(t, off...)
		for _, p := range attest.Table() {
			i := slices.IndexFunc(report, func(r probeAnswer) bool { return r.Name == p.Name })
			if i < 0 {
				t.Errorf("without %v: probe %s was not answered", off, p.Name)
				continue
			}
			counts := slices.Contains(p.Want, report[i].Errno)
			if p.Layer == layer && counts && !secondLayer[p.Name] {
				t.Errorf("without %v: probe %s still answers %s", off, p.Name, unix.ErrnoName(report[i].Errno))
			}
			if p.Layer != layer && !counts {
				t.Errorf("without %v: probe %s of %s answers %s", off, p.Name, p.Layer, unix.ErrnoName(report[i].Errno))
			}
		}
	}
}

// secondLayer are probes that another layer refuses with the same answer when
// their own is off: an ordinary user's namespace does not have the id 0.
var secondLayer = map[string]bool{"become-root": os.Geteuid() != 0}

type probeAnswer struct {
	Name  string
	Errno unix.Errno
}

// armedWithout arms one cell without layers and returns all answers, judged by
// nobody.
func armedWithout(t *testing.T, off ...string) []probeAnswer {
	t.Helper()
	cfg := refuseConfig()
	cfg.Mode, cfg.ControlOff = Off, off
	var got []probeAnswer
	cfg.probed = func(r []cellproto.ProbeResult) {
		if got != nil {
			return
		}
		for _, p := range r {
			got = append(got, probeAnswer{p.Name, unix.Errno(p.Errno)})
		}
	}
	h, err := Open(cfg)
	if err != nil {
		t.Fatalf("without %v: %v", off, err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	return got
}

// A missing file is no proof: only the errno of the layer itself counts.
//
// proves part of T-05
func TestAccidentsAreNoProof(t *testing.T) {
	for _, p := range attest.Table() {
		for _, e := range []unix.Errno{0, unix.ENOENT, unix.EFAULT, unix.EBADF, unix.EINTR, unix.EIO} {
			if slices.Contains(p.Want, e) && e != unix.ENOENT {
				t.Errorf("probe %s takes %s for a refusal", p.Name, unix.ErrnoName(e))
			}
			if e == unix.ENOENT && slices.Contains(p.Want, e) && !strings.HasPrefix(p.Name, "host-") {
				t.Errorf("probe %s takes a missing file for a refusal", p.Name)
			}
		}
	}
}

// A descriptor of the host program that would survive the guest's exec is found
// before there is a guest, where launcher and init do not close it.
//
// proves part of H-8 H-22
func TestInheritedDescriptorIsFound(t *testing.T) {
	dir, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	if err := unix.Dup2(dir, 3000); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(3000)
	if why := openLying(t); why != "" {
		t.Errorf("with every layer: %s", why)
	}
	if why := openLying(t, "close_range"); !strings.Contains(why, "attest: probe descriptors got through") {
		t.Errorf("refused with %q", why)
	}
}

func mayRaiseLimits(t *testing.T) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`CapEff:\s*([0-9a-f]+)`).FindSubmatch(status)
	if m == nil {
		t.Fatal("no CapEff")
	}
	set, err := strconv.ParseUint(string(m[1]), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set>>unix.CAP_SYS_RESOURCE&1 == 1
}

// No path of /proc or /sys is shown to a cell, whatever a language asks for.
//
// proves part of H-13
func TestNoProcOfTheHost(t *testing.T) {
	for _, o := range newPlan([]string{"/proc/version", "/proc/sys/kernel/*", "/sys/kernel", "/proc", "/sys", "/etc/hosts"}, nil).ops {
		for _, dir := range []string{"/proc", "/sys"} {
			if o.Kind == cellproto.OpBind && (o.Source == dir || strings.HasPrefix(o.Source, dir+"/")) {
				t.Errorf("%s is bound at %s", o.Source, o.Path)
			}
		}
	}
}

// childVar makes this test binary a host program whose hard limit of core files
// is 0; it holds the mode.
const childVar = "GLOVEBOX_CELL_CHILD"

func init() {
	mode := Mode(os.Getenv(childVar))
	if mode == "" {
		return
	}
	os.Unsetenv(childVar)
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	one := uint64(1)
	cfg := refuseConfig()
	cfg.Mode, cfg.coreLimit = mode, &one // as where core dumps go to a program
	h, err := Open(cfg)
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(0)
	}
	defer os.Exit(0)
	defer h.Close()
	json.NewEncoder(os.Stdout).Encode(h.Status().Layers)
}

// withoutCores is what such a host program says in a mode.
func withoutCores(t *testing.T, mode Mode) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), childVar+"="+string(mode), "GLOVEBOX_TEST_INIT="+testenv.Init())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// Where core dumps go to a program, only a core limit of 1 keeps a guest from
// starting it. A host program that inherited a hard limit of 0 gets there with
// CAP_SYS_RESOURCE, and is refused without.
//
// proves part of H-12
func TestCoreLimitOfOne(t *testing.T) {
	out := withoutCores(t, Require)
	want := "refused: .*rlimits does not hold .*hard limit is 0"
	if mayRaiseLimits(t) {
		want = `"core 1, [^"]*inside: raise-core EPERM`
	}
	if !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("got %s, want %s", out, want)
	}
}
