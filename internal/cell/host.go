package cell

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/attest"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/internal/landlock"
)

// Host is one launcher and the cells it starts. It is safe for concurrent use.
type Host struct {
	cfg  Config
	log  *slog.Logger
	feat features

	init     *os.File
	initVars []string
	ids      *idRange       // nil: an ordinary user, whose cells share his uid
	groups   *cgroup.Parent // nil: none usable
	own      map[string]string
	status   api.Status
	lasting  []api.Layer // of the status, which are not a single cell's

	launching sync.Mutex
	launcher  *launcher
	retired   []*launcher // of former plans, until their last cell has ended

	mu       sync.Mutex
	policies map[kind]*policy

	running chan struct{} // one token a running cell
	waiting atomic.Int64  // calls that wait for one
	slots   *reserve
	pool    *reserve  // armed cells of the default kind
	makers  *reserve  // and for compilers, from the first use on
	making  sync.Once // starts makers

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	entry  sync.Mutex     // guards closed against work
	closed bool           // no call of Run enters any more
	work   sync.WaitGroup // everything that Close waits for
	once   sync.Once
	err    error // of Close
}

// features are what this kernel offers.
type features struct {
	kernel    string
	landlock  int
	seccomp   bool
	timeNS    bool
	coreLimit uint64
	groupErr  *cgroup.UnavailableError
	swapExtra string // why swap would be extra memory, empty if not
	nokmem    string // why kernel memory is not charged, empty if it is
}

// Open finds out what this host can enforce, starts the launcher, and proves
// the sandbox on a first cell. Under [Require] it fails with *api.SandboxError
// unless every layer of the profile holds.
func Open(cfg Config) (*Host, error) {
	h := &Host{cfg: cfg, log: cfg.Log, policies: map[kind]*policy{}, running: make(chan struct{}, cfg.MaxCells)}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if cfg.start == nil {
		h.cfg.start, h.cfg.patience = startLauncher, armTimeout
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.slots = newReserve(h, cfg.Reserve, 0, h.prepare)
	h.pool = newReserve(h, cfg.Armed, maxArmedAge, func() (*cell, error) { return h.arm(h.usual(), nil) })
	h.makers = newReserve(h, min(cfg.Armed, 1), maxArmedAge, func() (*cell, error) { return h.arm(makerKind(), nil) })
	begin := time.Now()
	h.work.Go(func() { _, _ = h.policy(h.usual()) }) // compiled while the launcher starts; an error comes again
	if err := h.open(); err != nil {
		h.Close()
		var unavailable *api.SandboxError
		if errors.As(err, &unavailable) {
			unavailable.Status.ElapsedMS = ms(time.Since(begin))
		}
		return nil, err
	}
	h.status.ElapsedMS = ms(time.Since(begin))
	h.slots.run()
	h.pool.run()
	return h, nil
}

func (h *Host) open() (err error) {
	if h.own, err = attest.OwnNamespaces(); err != nil {
		return err
	}
	path := h.cfg.InitPath
	if path == "" {
		if path, err = findInit(); err != nil {
			return err
		}
	}
	if h.init, err = openInit(path); err != nil {
		return fmt.Errorf("init program: %w", err)
	}
	h.detect()
	if os.Geteuid() == 0 {
		if h.ids, err = takeIDs(); err != nil {
			return fmt.Errorf("user ids for cells: %w", err)
		}
		h.ids.keepGroups = h.off("groups")
	}
	if err := h.openGroups(); err != nil {
		return err
	}
	h.initVars = h.initEnv(path)
	if _, err := h.launch(); err != nil {
		return err
	}
	return h.prove()
}

// launch returns the launcher; it starts one at first, and again when it has
// died, which ended every cell it had started.
func (h *Host) launch() (*launcher, error) {
	h.launching.Lock()
	defer h.launching.Unlock()
	if h.launcher != nil {
		if h.launcher.lost() == nil {
			return h.launcher, nil
		}
		h.log.Error("the launcher died", "error", h.launcher.lost())
		h.launcher.close()
		h.launcher = nil
	}
	for tries := 3; ; tries-- { // what cells show may change just while it is looked at
		plan := h.cfg.plan()
		l, err := h.launchWith(plan)
		if err == nil {
			h.launcher = l
			return l, nil
		}
		if tries == 1 || h.cfg.plan().stamp == plan.stamp {
			return nil, err
		}
	}
}

// launchWith starts a launcher and has it build the root of a plan.
func (h *Host) launchWith(plan *plan) (*launcher, error) {
	l, err := h.cfg.start(h.init, h.ids, h.initVars)
	if errors.Is(err, unix.ENOEXEC) {
		return nil, h.unavailable("program", err.Error())
	}
	if err != nil {
		return nil, h.unavailable("namespaces", err.Error())
	}
	if h.feat.coreLimit == 1 {
		// Only 1 keeps a dump from a program, and who has inherited a hard limit of
		// 0 needs CAP_SYS_RESOURCE to get there; where it does not help, init refuses.
		_ = unix.Prlimit(l.pid, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}, nil)
	}
	if h.groups != nil {
		if err := h.groups.AddLauncher(l.pid); err != nil {
			l.close()
			return nil, fmt.Errorf("control group of the launcher: %w", err)
		}
	}
	l.plan = plan
	if err := l.base(plan.ops, h.offInside()); err != nil {
		stage := "root"
		switch {
		case strings.HasPrefix(err.Error(), "launcher: proc: "):
			stage = "proc"
		case l.lost() != nil: // it ended without a word
			stage = "program"
		}
		l.close()
		return nil, h.unavailable(stage, err.Error())
	}
	return l, nil
}

// renew sees whether what cells show of the host is still what it was. If not,
// new cells come from a new launcher, which has looked again; idle ones are given
// up, and running ones keep the launcher they have until the last has ended.
func (h *Host) renew() {
	h.launching.Lock()
	defer h.launching.Unlock()
	l := h.launcher
	if l == nil || l.plan == nil || !l.plan.stale(h.cfg.plan) {
		return
	}
	h.log.Info("what cells show of this host has changed: idle cells are replaced")
	h.launcher = nil
	h.retired = slices.DeleteFunc(append(h.retired, l), func(l *launcher) bool { return l.ended() })
	l.retire()
	h.pool.flush()
	h.makers.flush()
	h.slots.flush()
}

// initEnv is the whole environment of launcher and init: nothing, but for a
// host program that is its own init, whose Go runtime must not open files of
// the control groups that init then closes as inherited. glovebox-init says the
// same at its build.
func (h *Host) initEnv(path string) []string {
	if h.off("environ") {
		return os.Environ()
	}
	if slices.Contains(h.offInside(), "close_range") {
		return []string{"GLOVEBOX_CONTROL=close_range"}
	}
	if self, err := os.Executable(); err == nil && self == path {
		return []string{"GODEBUG=containermaxprocs=0,updatemaxprocs=0"}
	}
	return []string{}
}

// detect reads what the kernel offers.
func (h *Host) detect() {
	var uts unix.Utsname
	_ = unix.Uname(&uts)
	h.feat.kernel = unix.ByteSliceToString(uts.Release[:])
	if !h.off("landlock") {
		h.feat.landlock = landlock.ABI()
	}
	// An operation with no meaning: EINVAL from a kernel with seccomp.
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, 0xffff, 0, 0)
	h.feat.seccomp = errno == unix.EINVAL && !h.off("seccomp")
	_, err := os.Stat("/proc/self/ns/time_for_children")
	h.feat.timeNS = err == nil && atLeast(h.feat.kernel, 6, 3)
	if b, err := os.ReadFile("/proc/sys/kernel/core_pattern"); err != nil || strings.HasPrefix(string(b), "|") {
		h.feat.coreLimit = 1 // core(5): 0 does not stop a dump into a program
	}
	if h.cfg.coreLimit != nil {
		h.feat.coreLimit = *h.cfg.coreLimit
	}
}

// atLeast compares a kernel release with a version.
func atLeast(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a > major || a == major && b >= minor
}

func (h *Host) openGroups() error {
	if h.off("cgroup") {
		return nil
	}
	found, err := cgroup.Find()
	if err != nil {
		return h.noGroups(err)
	}
	if _, err := found.Sweep(); err != nil {
		h.log.Warn("control groups of a former host are left", "error", err)
	}
	if extra, why := found.SwapExtra(); extra {
		h.feat.swapExtra = why
	}
	if uncounted, why := found.KernelMemoryUncounted(); uncounted {
		h.feat.nokmem = why
	}
	parent, err := found.Open()
	if err != nil {
		return h.noGroups(err)
	}
	h.groups = parent
	if h.ids != nil {
		return parent.SetOwner(h.ids.base, h.ids.base)
	}
	return nil
}

// noGroups remembers why there are none; what follows from it is decided with
// the other layers.
func (h *Host) noGroups(err error) error {
	var u *cgroup.UnavailableError
	if errors.As(err, &u) {
		h.feat.groupErr = u
		return nil
	}
	return fmt.Errorf("control groups: %w", err)
}

func (h *Host) off(layer string) bool {
	for _, o := range h.cfg.ControlOff {
		if o == layer {
			return true
		}
	}
	return false
}

// offInside are the layers that launcher and init leave out.
func (h *Host) offInside() []string {
	return slices.Concat(h.cfg.ControlOff, h.cfg.insideOff)
}

func (h *Host) arming(k kind, pol *policy, uid, gid int, nonce []byte) *cellproto.Arm {
	d := api.DefaultLimits()
	a := &cellproto.Arm{
		Nonce: nonce, Loopback: k.loopback,
		StandIns: standIns(d.MemoryBytes, CPUs(d.CPUPercent)),
		ProcKeep: procKeep, ProcCommon: procCommon,
		DiskBytes: uint64(k.diskBytes), DiskFiles: uint64(k.diskFiles), Maker: k.maker(),
		UID: uint64(uid), GID: uint64(gid), DropGroups: h.ids != nil && !h.off("groups"),
		TimeNS: h.feat.timeNS, CoreLimit: h.feat.coreLimit,
		Probes: attest.Names(h.offProbes(), k.loopback), Off: h.offInside(),
	}
	a.Passwd, a.Group = identity(uid, gid)
	a.Guest, a.Init = pol.guest, pol.init
	if h.feat.seccomp {
		a.Filter, a.Notify = pol.program, !h.off("notify") && !k.traced.on
		a.Watch, a.Judge = pol.watch, pol.judge
	}
	return a
}

// offProbes are the layers that no probe can be asked about.
func (h *Host) offProbes() []string {
	if h.cfg.probed != nil {
		return nil
	}
	off := append([]string{}, h.cfg.ControlOff...)
	for _, o := range h.cfg.ControlOff {
		switch o {
		case "pid":
			off = append(off, "namespaces", "proc", "cgroup_ns")
		case "procmask":
			off = append(off, "proc")
		case "root":
			off = append(off, "proc", "namespaces", "cgroup_ns", "landlock")
		}
	}
	if h.feat.landlock == 0 {
		off = append(off, "landlock")
	}
	if !h.feat.seccomp || h.off("judge") {
		off = append(off, "seccomp")
	}
	return off
}

func nonce() []byte {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	return b
}

// Status is what this host can enforce.
func (h *Host) Status() api.Status { return h.status }

// enter counts a caller that Close must wait for; it reports false when the host
// is closed.
func (h *Host) enter() bool {
	h.entry.Lock()
	defer h.entry.Unlock()
	if h.closed {
		return false
	}
	h.work.Add(1)
	return true
}

// Closing is closed when Close is called.
func (h *Host) Closing() <-chan struct{} { return h.ctx.Done() }

// Close ends every cell, waits until nothing is left of them, and ends the
// launcher. It is idempotent and safe beside running calls of Run, which then
// end with api.ErrClosed or the verdict interrupted. Every call returns when
// all is gone.
func (h *Host) Close() error {
	h.once.Do(func() { h.err = h.close() })
	return h.err
}

func (h *Host) close() error {
	h.entry.Lock()
	h.closed = true
	h.entry.Unlock()
	h.cancel()
	h.pool.drain(func(c *cell) { c.destroy() })
	h.makers.drain(func(c *cell) { c.destroy() })
	h.slots.drain(func(c *cell) { c.destroy() })
	h.work.Wait()
	for _, l := range append(h.retired, h.launcher) {
		if l != nil {
			l.close()
		}
	}
	var err error
	if h.groups != nil {
		err = h.groups.Close()
	}
	if h.ids != nil {
		h.ids.close()
	}
	if h.init != nil {
		h.init.Close()
	}
	return err
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
