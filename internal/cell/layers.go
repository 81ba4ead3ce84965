package cell

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/attest"
	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// Layers of a profile, in the order in which they are shown. A host is
// complete when every one of these holds.
var requiredLayers = []string{
	"namespaces", "root", "proc", "landlock", "seccomp", "cgroup", "rlimits", "privileges", "self_test",
	"resource_probes", "termination",
}

// attest judges init's report and adds what can be seen from outside. The
// error names the first probe or reading that is not as it must be.
func (c *cell) attest(a *cellproto.Arm, r *cellproto.Armed, uid int) error {
	h := c.h
	if h.cfg.probed != nil {
		h.cfg.probed(r.Probes)
	} else if bad := attest.Judge(a.Probes, r.Probes); len(bad) > 0 {
		return &stageError{"attest", bad[0]}
	}
	mounts := make(chan error, 1)
	go func() { mounts <- c.checkMounts() }() // the longest of the readings, beside the others
	if err := errors.Join(c.checkThreads(r), <-mounts); err != nil {
		return &stageError{"attest", err}
	}
	c.evidence = api.Evidence{
		Sandbox: string(h.cfg.Mode), Profile: c.kind.profile, PolicyHash: c.policy.hash,
		Layers: c.layers(r, uid), Probes: len(r.Probes), Kernel: h.feat.kernel,
	}
	return nil
}

// checkThreads reads what the kernel says of init's threads, namespaces, groups
// and clocks.
func (c *cell) checkThreads(r *cellproto.Armed) error {
	h, w := c.h, c.witness
	if err := w.Threads(c.want()); err != nil {
		return err
	}
	seen, err := w.Namespaces()
	if err != nil {
		return err
	}
	for ns, id := range seen {
		if id == h.own[ns] && !h.off(ns) && h.cfg.Mode != Off {
			return fmt.Errorf("the %s namespace is the host's", ns)
		}
	}
	if g := c.place.group; g != nil {
		if err := g.Member(w.Dir()); err != nil {
			return err
		}
	}
	if !h.off("rlimits") {
		core := &h.feat.coreLimit
		if ok, _ := said(r, "rlimits"); !ok { // that of cores could not be set
			core = nil
		}
		if err := w.Limits(core); err != nil {
			return err
		}
	}
	if ok, _ := said(r, "time"); ok && !w.OwnClock() {
		return errors.New("no thread has a time namespace for its children")
	}
	c.namespaces = len(seen)
	return nil
}

// checkMounts reads the mounts of the cell and wants each to be one that its
// root is made of.
func (c *cell) checkMounts() error {
	h := c.h
	if h.off("root") || h.off("mountcheck") {
		return nil
	}
	mounts, err := c.witness.Mounts()
	if err == nil {
		err = attest.CheckMounts(mounts, c.place.slot.l.plan.shown, c.kind.maker())
	}
	if err == nil && !h.off("hidepid") {
		err = attest.CheckProc(mounts)
	}
	return err
}

// said is what init says of a layer.
func said(r *cellproto.Armed, name string) (bool, string) {
	for _, l := range r.Layers {
		if l.Layer == name {
			return l.OK, l.Detail
		}
	}
	return false, "not applied"
}

// layers says for each layer whether it holds and who saw it.
func (c *cell) layers(r *cellproto.Armed, uid int) []api.Layer {
	h := c.h
	var out []api.Layer
	add := func(name string, applied bool, detail, remedy string) {
		out = append(out, api.Layer{Name: name, Applied: applied, Detail: detail, Remedy: remedy})
	}
	outside := func(name, seen string) {
		ok, detail := said(r, name)
		if inside := attest.Inside(name, r.Probes); ok && inside != "" {
			detail += "; inside: " + inside
		}
		if ok && seen != "" {
			detail += "; outside: " + seen
		}
		add(name, ok, detail, "")
	}
	add("namespaces", !slices.ContainsFunc([]string{"pid", "net", "ipc", "uts"}, h.off),
		fmt.Sprintf("user, pid, mount, net, ipc, uts, cgroup; outside: %d identities differ from the host's", c.namespaces), "")
	outside("root", "mountinfo read-only, private, nosuid; open: locks on the files of the host that are shown (flock, futex)")
	outside("proc", "mountinfo hides the processes of others")
	if h.feat.landlock == 0 {
		add("landlock", false, "the kernel offers none", landlockRemedy)
	} else {
		ok, detail := said(r, "landlock")
		add("landlock", ok, fmt.Sprintf("ABI %d, %s; inside: %s; outside: the kernel shows none of it", h.feat.landlock, detail, attest.Inside("landlock", r.Probes)), "")
	}
	if !h.feat.seccomp {
		add("seccomp", false, "the kernel offers none", seccompRemedy)
	} else {
		outside("seccomp", fmt.Sprintf("mode 2 on %d threads", c.witness.Tasks()))
	}
	out = append(out, h.groupLayer())
	outside("rlimits", "hard limits read")
	ok, detail := said(r, "privileges")
	add("privileges", ok, detail+"; "+h.identity(uid)+"; outside: CapEff 0 and NoNewPrivs 1 on every thread", "")
	add("self_test", len(r.Probes) > 0, fmt.Sprintf("%d probes refused", len(r.Probes)), "")
	ok, detail = said(r, "time")
	add("time", ok, detail, "")
	ok, detail = said(r, "speculation")
	add("speculation", ok, detail, "")
	return out
}

// identity says whose uid the guest carries.
func (h *Host) identity(uid int) string {
	if h.ids != nil {
		return fmt.Sprintf("own uid %d", uid)
	}
	text := fmt.Sprintf("shared uid %d", uid)
	if groups, err := os.Getgroups(); err == nil && len(groups) > 0 {
		text += fmt.Sprintf(", groups kept %v", groups)
	}
	return text
}

const (
	programRemedy  = "the glovebox-init of this version beside the program, or in Options.InitPath; a program that is its own init, by glovebox.Init, built with CGO_ENABLED=0"
	landlockRemedy = "a kernel of 5.13 or newer built with CONFIG_SECURITY_LANDLOCK, and landlock in the lsm= list of its command line"
	seccompRemedy  = "a kernel with CONFIG_SECCOMP_FILTER; in a container, a seccomp profile that lets seccomp(2) through"
	usernsRemedy   = "an AppArmor profile that grants userns to the path of glovebox-init alone; in a container, a seccomp profile that lets clone(2) and unshare(2) make user namespaces; only where user.max_user_namespaces is 0, a number above it, which lets every program of the host make them"
	procRemedy     = "in Docker: --security-opt systempaths=unconfined for this container alone; in Kubernetes: procMount: Unmasked"
)

func (h *Host) groupLayer() api.Layer {
	l := api.Layer{Name: "cgroup"}
	switch {
	case h.groups == nil && h.feat.groupErr != nil:
		l.Detail, l.Remedy = h.feat.groupErr.Controller+": "+h.feat.groupErr.Reason+"; "+sampled, h.feat.groupErr.Remedy
	case h.groups == nil:
		l.Detail = "not applied; " + sampled
	case h.feat.swapExtra != "":
		l.Detail, l.Remedy = h.feat.swapExtra, "swapaccount=1 on the kernel's command line, or a host without swap"
	case h.feat.nokmem != "":
		l.Detail, l.Remedy = h.feat.nokmem, "a kernel command line without cgroup.memory=nokmem"
	default:
		l.Applied, l.Detail = true, h.groups.Host().Describe()
	}
	return l
}

// prove arms a cell, makes the status from it and measures it. Where none is to
// be kept, and so always for a mere status, it is killed to see that it can be.
func (h *Host) prove() error {
	h.status = api.Status{Kernel: h.feat.kernel, Arch: runtime.GOARCH, User: userText(), APIVersion: api.Version, Warnings: []string{}}
	keep := h.cfg.Armed > 0 || h.cfg.Once
	c, err := h.arm(h.usual(), nil)
	if err != nil {
		var se *stageError
		stage := "start"
		if errors.As(err, &se) {
			stage = se.stage
		}
		return h.unavailable(stage, err.Error())
	}
	h.lasting = []api.Layer{c.measurable(), c.mortal(keep)}
	h.status.Layers = slices.Concat(c.evidence.Layers, h.lasting)
	h.status.Complete = true
	h.status.Warnings = append(h.status.Warnings, h.powerfulGroups()...)
	var missing []string
	for _, l := range h.status.Layers {
		if !l.Applied && slices.Contains(requiredLayers, l.Name) {
			h.status.Complete = false
			missing = append(missing, l.Name)
			h.status.Warnings = append(h.status.Warnings, l.Name+": "+l.Detail)
		}
	}
	mortal := !slices.Contains(missing, "termination")
	if h.cfg.Mode == Require && len(missing) > 0 || !mortal {
		c.destroy()
		if h.cfg.Mode != Require {
			missing = []string{"termination"} // the one that refuses
		}
		return &api.SandboxError{Status: h.status, Reason: reason(h.status.Layers, missing)}
	}
	if keep {
		h.pool.put(c)
	} else {
		c.destroy()
	}
	return nil
}

// powerful are groups whose members can become root, or read what root guards,
// on common systems.
var powerful = []string{"root", "wheel", "sudo", "admin", "adm", "disk", "shadow", "docker", "lxd", "libvirt", "kvm", "systemd-journal"}

// powerfulGroups warns of those that an ordinary user's guests would keep: the
// kernel does not let him drop them.
func (h *Host) powerfulGroups() []string {
	if h.ids != nil {
		return nil
	}
	ids, err := os.Getgroups()
	if err != nil {
		return []string{"the groups of this user cannot be read"}
	}
	var out []string
	for _, id := range ids {
		g, err := user.LookupGroupId(strconv.Itoa(id))
		if err == nil && slices.Contains(powerful, g.Name) {
			out = append(out, "guests keep this user's group "+g.Name+": run Glovebox as a user without it")
		}
	}
	return out
}

// measurable says which counters this host gives of a cell, read from one that
// has just worked: a figure of zero is as good as none.
func (c *cell) measurable() api.Layer {
	l := api.Layer{Name: "resource_probes"}
	g := c.place.group
	if g == nil {
		l.Detail = "no counter without a control group; memory and processor time are sampled from /proc"
		return l
	}
	n, err := g.Counters()
	if err != nil {
		l.Detail = err.Error()
		return l
	}
	var seen, none []string
	for _, f := range []struct {
		name   string
		v      *int64
		atMost int64 // a working cell is above this
	}{{"cpu", n.CPUUsec, 0}, {"memory", n.MemoryBytes, 0}, {"peak", n.PeakBytes, 0}, {"tasks", n.Tasks, 0},
		{"oom kills", n.OOMKills, -1}, {"refused forks", n.PidsMaxHits, -1}} {
		if f.v == nil || *f.v <= f.atMost {
			none = append(none, f.name)
		} else {
			seen = append(seen, f.name)
		}
	}
	l.Applied = n.CPUUsec != nil && n.OOMKills != nil && n.Tasks != nil
	l.Detail = "the kernel counts " + strings.Join(seen, ", ")
	if len(none) > 0 {
		l.Detail += "; not " + strings.Join(none, ", ")
	}
	return l
}

// mortal kills the cell and waits for its end, or, of a cell that is to be kept,
// asks whether it could.
func (c *cell) mortal(keep bool) api.Layer {
	begin := time.Now()
	if keep {
		if err := unix.PidfdSendSignal(c.pidfd, 0, nil, 0); err != nil {
			return api.Layer{Name: "termination", Detail: "a cell cannot be signalled: " + err.Error()}
		}
		return api.Layer{Name: "termination", Applied: true, Detail: "cells take signals by their pidfd"}
	}
	c.kill()
	if c.gone(time.Second) {
		return api.Layer{Name: "termination", Applied: true, Detail: fmt.Sprintf("a cell was killed in %.1f ms", ms(time.Since(begin)))}
	}
	return api.Layer{Name: "termination", Detail: "a cell could not be killed within a second"}
}

// unavailable is the error of a host that cannot seal anything at all, in any
// mode.
func (h *Host) unavailable(stage, why string) error {
	name, remedy := "namespaces", usernsRemedy
	switch stage {
	case "proc":
		name, remedy = "proc", procRemedy
	case "root", "disk", "box":
		name, remedy = "root", usernsRemedy
	case "seccomp":
		name, remedy = "seccomp", seccompRemedy
	case "landlock":
		name, remedy = "landlock", landlockRemedy
	case "privileges", "rlimits":
		name, remedy = stage, ""
	case "attest":
		name, remedy = "self_test", ""
	case "program":
		name, remedy = "self_test", programRemedy
	}
	if h.status.Kernel == "" {
		h.status = api.Status{Kernel: h.feat.kernel, Arch: runtime.GOARCH, User: userText(), APIVersion: api.Version}
	}
	for _, l := range requiredLayers {
		switch l {
		case name:
			h.status.Layers = append(h.status.Layers, api.Layer{Name: l, Detail: why, Remedy: remedy})
		case "cgroup":
			h.status.Layers = append(h.status.Layers, h.groupLayer())
		default:
			h.status.Layers = append(h.status.Layers, api.Layer{Name: l, Detail: "not tried: " + name + " failed"})
		}
	}
	h.status.Warnings = []string{name + ": " + why}
	return &api.SandboxError{Status: h.status, Reason: reason(h.status.Layers, []string{name})}
}

// reason is one sentence for the first missing layer.
func reason(layers []api.Layer, missing []string) string {
	for _, l := range layers {
		if l.Name != missing[0] {
			continue
		}
		s := fmt.Sprintf("%s does not hold (%s)", l.Name, l.Detail)
		if l.Remedy != "" {
			s += "; remedy: " + l.Remedy
		}
		return s
	}
	return strings.Join(missing, ", ")
}

func userText() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return fmt.Sprintf("uid %d", unix.Geteuid())
}
