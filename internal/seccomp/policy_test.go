package seccomp

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Every name of the two tables has a row with a reason, and no row names a call that neither has.
//
// proves T-09 O-21 H-40
func TestEveryCallHasARow(t *testing.T) {
	for _, v := range variants(t) {
		if w := gaps(v.policy.rows); len(w) > 0 {
			t.Errorf("%s: %s", v.name, strings.Join(w, "; "))
		}
	}
	// Control: a row taken away and a row for nothing are both reported.
	rows := map[string]*row{"frobnicate": {name: "frobnicate", reason: "x"}}
	for n, r := range load(t, "language", Options{}).rows {
		rows[n] = r
	}
	delete(rows, "mseal")
	if w := gaps(rows); len(w) != 3 {
		t.Errorf("want mseal twice and frobnicate once, got %q", w)
	}
}

func gaps(rows map[string]*row) []string {
	var out []string
	for _, a := range []Arch{X86_64, Aarch64} {
		for name := range lookup(a).number {
			if rows[name] == nil {
				out = append(out, a.String()+" "+name+": no row")
			}
		}
	}
	for name, r := range rows {
		_, x := Number(X86_64, name)
		_, y := Number(Aarch64, name)
		if !x && !y {
			out = append(out, name+": in no table")
		}
		if r.reason == "" {
			out = append(out, name+": no reason")
		}
	}
	return out
}

// The host's table agrees, name by name, with a second collection made from the kernel's headers by others.
//
// proves T-09
func TestNumbersAgreeWithASecondSource(t *testing.T) {
	a, ok := Host()
	if !ok {
		t.Fatal("no table for this host")
	}
	mine := lookup(a).number
	if len(mine) != len(independent) {
		t.Errorf("%d names here, %d there", len(mine), len(independent))
	}
	for name, nr := range independent {
		if mine[name] != nr {
			t.Errorf("%s: %d here, %d there", name, mine[name], nr)
		}
		if back := Name(a, nr); back != name {
			t.Errorf("%d is %q here, %q there", nr, back, name)
		}
	}
}

// Numbers in the gaps of a table and above it answer ENOSYS.
//
// proves H-40
func TestUnknownNumbersAnswerENOSYS(t *testing.T) {
	for _, v := range variants(t) {
		m := compile(t, v.policy, v.arch, v.notify)
		unknown := 0
		for nr := range 4096 {
			if Name(v.arch, nr) != "" {
				continue
			}
			unknown++
			if got := m.run(t, v.arch.audit(), nr, [6]uint64{}); got != unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS) {
				t.Fatalf("%s: number %d answers %#x", v.name, nr, got)
			}
		}
		if unknown < 3600 {
			t.Errorf("%s: only %d numbers are unknown", v.name, unknown)
		}
	}
}

// With adds a learnable call, refuses the denied ones by name, and changes text and hash only when it
// changes something.
//
// proves O-21
func TestWith(t *testing.T) {
	p := load(t, "language", Options{})
	q, err := p.With([]string{"inotify_init1", "inotify_add_watch"})
	if err != nil {
		t.Fatal(err)
	}
	nr, _ := Number(X86_64, "inotify_init1")
	if got := q.Action(X86_64, nr, [6]uint64{}); got.Kind != Allow {
		t.Errorf("added call: %v", got)
	}
	if got := p.Action(X86_64, nr, [6]uint64{}); got.Errno != unix.ENOSYS {
		t.Errorf("the first policy changed: %v", got)
	}
	if q.Hash() == p.Hash() || q.String() == p.String() {
		t.Error("an addition leaves no trace in text and hash")
	}
	if same, err := p.With([]string{"read"}); err != nil || same.Hash() != p.Hash() {
		t.Errorf("adding what is allowed: %v", err)
	}
	for name, want := range map[string]error{
		"frobnicate": ErrUnknownCall, "clone": ErrLimited, "ioctl": ErrLimited, "mmap": ErrLimited, "prctl": ErrLimited,
	} {
		if _, err := p.With([]string{name}); !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	for _, name := range p.Denied() {
		if _, err := p.With([]string{"readahead", name}); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range p.Learnable() {
		if _, err := p.With([]string{name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The denied list holds at least what must never be lifted.
//
// proves O-21 O-16
func TestDeniedList(t *testing.T) {
	must := strings.Fields(`syslog ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp mount umount2 fsopen fsconfig
		fsmount fspick open_tree open_tree_attr move_mount mount_setattr statmount listmount pivot_root chroot unshare setns
		clone3 socket bind connect listen accept accept4 io_uring_setup io_uring_enter io_uring_register bpf perf_event_open
		userfaultfd reboot kexec_load kexec_file_load init_module finit_module delete_module add_key request_key keyctl
		modify_ldt iopl ioperm quotactl quotactl_fd name_to_handle_at open_by_handle_at fanotify_init fanotify_mark swapon
		swapoff acct settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname seccomp shmget shmat shmctl
		semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_timedsend mq_timedreceive mq_notify`)
	denied := map[string]bool{}
	for _, n := range load(t, "language", Options{}).Denied() {
		denied[n] = true
	}
	for _, n := range must {
		if !denied[n] {
			t.Errorf("%s is not always denied", n)
		}
	}
	// Control: the list is not simply everything.
	for _, n := range []string{"read", "clone", "socketpair", "inotify_init1", "mincore"} {
		if denied[n] {
			t.Errorf("%s is always denied", n)
		}
	}
}

// Text and hash are stable, blind to reasons and layout, and differ between variants.
func TestHash(t *testing.T) {
	a, b := load(t, "language", Options{}), load(t, "language", Options{})
	if a.Hash() != b.Hash() || a.String() != b.String() || len(a.Hash()) != 64 {
		t.Errorf("two loads differ: %s %s", a.Hash(), b.Hash())
	}
	if load(t, "language", Options{Loopback: true}).Hash() == a.Hash() {
		t.Error("loopback has the same hash")
	}
	one := parsed(t, "read allow # reason\nwrite if arg0:u32 is 1 : allow ; else kill # x")
	two := parsed(t, "# text\nwrite  if arg0:u32 is 0x1 : allow ; \\\n else kill  # other\nread allow # other")
	three := parsed(t, "read allow # reason\nwrite if arg0:u32 is 2 : allow ; else kill # x")
	if one.Hash() != two.Hash() || one.Hash() == three.Hash() {
		t.Errorf("%s\n%s\n%s", one, two, three)
	}
}

func parsed(t testing.TB, text string) *Policy {
	t.Helper()
	p := newParser(nil)
	if err := p.parse("test", text); err != nil {
		t.Fatal(err)
	}
	out, err := newPolicy(p.rows)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Names that are no profile are refused, the overlay and paths among them.
func TestLoadRefuses(t *testing.T) {
	for _, name := range []string{"", "loopback", "../policy/language", "Language", "nothing"} {
		if _, err := Load(name, Options{}); !errors.Is(err, ErrUnknownProfile) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := load(t, "language", Options{}).Compile(I386, false); err == nil {
		t.Error("a filter for i386 was made")
	}
}

// A mistake in a policy file is an error, never a looser policy.
func TestParserRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"read allow":                                            "no reason",
		"read allow #  ":                                        "no reason",
		"read # x":                                              "unknown answer",
		"read allow # x\nover language":                         "before all rows",
		"read allow # x\nnarrow language":                       "before all rows",
		"over language\nnot_a_call allow # x":                   "replaces no row",
		"narrow":                                                "one name",
		"read allow all # x":                                    "unknown answer",
		"read errno EFOO # x":                                   "unknown errno",
		"read allow # x\nread allow # x":                        "second row",
		"read if arg0:u32 is 1 : allow # x":                     "ends with ;",
		"read if arg0:u32 is 1 : allow ; # x":                   "end with else",
		"read if arg0:u32 is 1 allow ; else allow # x":          "colon",
		"read if arg0:u32 : allow ; else allow # x":             "want argN",
		"read if arg6:u32 is 1 : allow ; else kill #":           "no argument",
		"read if arg0:u8 is 1 : allow ; else kill #":            "no argument",
		"read if arg0:u32 is : allow ; else kill # x":           "number of values",
		"read if arg0:u32 only 1 2 : allow ; else kill # x":     "number of values",
		"read if arg0:u32 is 0x100000000 : allow ; else kill #": "wider",
		"read if arg0:u16 is 0x10000 : allow ; else kill # x":   "wider",
		"read if arg0:u32 is NAME : allow ; else kill # x":      "unknown value",
		"read if arg0:u32 near 1 : allow ; else kill # x":       "unknown test",
		"read if arg0:u32 mask 1 only 1 : allow ; else kill #":  "mask wants is",
		"read if arg0:u32 mask 1 is 2 : allow ; else kill # x":  "cannot pass",
		"read if arg0:ptr is 0 : allow ; else kill # x":         "null",
		"read if arg0:u64 null : allow ; else kill # x":         "null",
		"let A 1":         "want: let",
		"let A = B":       "unknown value",
		"include":         "wants one",
		"include nowhere": "nowhere",
		"include again":   "includes itself",
	} {
		p := newParser(func(name string) ([]byte, error) {
			if name == "policy/again.txt" {
				return []byte("include again"), nil
			}
			return policyFiles.ReadFile(name)
		})
		if err := p.parse("test", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	p := newParser(nil)
	p.replace = true
	if err := p.parse("overlay", "read allow # x"); err == nil {
		t.Error("an overlay row that replaces nothing is accepted")
	}
}

// Describe names calls of every entry.
func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		audit uint32
		nr    int32
		want  string
	}{
		{auditX86_64, 101, "ptrace"}, {auditX86_64, x32Bit | 521, "x32:ptrace"}, {auditX86_64, x32Bit | 39, "x32:getpid"},
		{auditI386, 26, "i386:ptrace"}, {auditAarch64, 117, "ptrace"}, {auditARM, 26, "arm:26"},
		{auditX86_64, 4000, "4000"}, {auditX86_64, x32Bit | 4000, "x32:4000"}, {0x1234, 5, "0x1234:5"},
	} {
		if got := Describe(c.audit, c.nr); got != c.want {
			t.Errorf("%#x %d: %q, want %q", c.audit, c.nr, got, c.want)
		}
	}
}

// A sealed worker is left a few calls, and each of them is one that languages have too; whatever else they are
// allowed is refused.
//
// proves part of O-05
func TestNarrowRefusesTheRest(t *testing.T) {
	sealed, language := load(t, "sealed", Options{}), load(t, "language", Options{})
	allowed := 0
	for name, r := range language.rows {
		s := sealed.rows[name]
		partly := len(r.branches) > 0 || r.last.Kind == Allow
		kept := len(s.branches) > 0 || s.last.Kind == Allow
		if kept {
			allowed++
		}
		if kept && !partly && name != "seccomp" {
			t.Errorf("%s is allowed to the sealed alone", name)
		}
		if partly && !kept && !s.alwaysDenied() {
			t.Errorf("%s could be added", name)
		}
	}
	if allowed < 20 || allowed > 40 {
		t.Errorf("%d calls are left", allowed)
	}
	// Control: with over instead of narrow the rest stays allowed.
	p := newParser(policyFiles.ReadFile)
	if err := p.parse("x", "over language\nread allow # x"); err != nil {
		t.Fatal(err)
	}
	if p.rows["openat"].last.Kind != Allow {
		t.Error("over took openat away")
	}
}
