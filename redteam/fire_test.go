package redteam

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Deselect()
	os.Exit(m.Run())
}

// The whole battery: every attack that this host can fire is stopped, and every
// control gets through. What is not fired is listed.
//
// proves part of T-04 T-06 T-01
func TestBattery(t *testing.T) {
	begin := time.Now()
	r, err := Fire(t.Context(), Options{InitPath: testenv.Init(), Done: func(row Row) {
		switch {
		case row.NotFired != "":
			t.Logf("not fired: %s %s", row.Attack, row.NotFired)
		case !row.Good():
			t.Errorf("%s: stopped %v, control got through %v: %s", row.Attack, row.Stopped, row.Through, row.Reason)
		case row.StoppedBy == "":
			t.Errorf("%s: nothing is said of what stopped it", row.Attack)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d attacks, %d stopped, %d controls got through, %d not fired, %v", r.Attacks, r.Stopped, r.Through, r.NotFired, time.Since(begin).Round(time.Second))
	if !r.Good() {
		t.Error("the report is not good")
	}
}

// A battery without the layer that stops an attack says that it was not
// stopped, and one whose control lacks nothing that its control was stopped: the
// judge can say both.
func TestJudgeCanFail(t *testing.T) {
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	picked, err := pick(all, "filesystem/read-canary")
	if err != nil {
		t.Fatal(err)
	}
	swapped := *picked[0]
	swapped.sealed, swapped.control = swapped.control, swapped.sealed
	r, err := open(testenv.Init(), cell.Require)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	row, err := r.fire(t.Context(), &swapped)
	if err != nil || row.Stopped || row.Through || !strings.Contains(row.Reason, "sealed: ") || !strings.Contains(row.Reason, "control: ") {
		t.Errorf("%+v, %v", row, err)
	}
}

// Nothing is left behind: no process, no control group, no file, when the
// battery ends and when it is ended in the middle.
//
// proves part of T-10
func TestNothingIsLeft(t *testing.T) {
	before := left(t)
	during := ""
	if _, err := Fire(t.Context(), Options{InitPath: testenv.Init(), Only: "network", Done: func(Row) { during = left(t) }}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{" processes", " groups", " folders"} {
		if regexp.MustCompile(`\b0` + kind).MatchString(during) {
			t.Errorf("the count sees no%s while a battery runs: %s", kind, during)
		}
	}
	if now := left(t); now != before {
		t.Errorf("after a battery: %s, before: %s", now, before)
	}
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	n := 0
	begin := time.Now()
	_, err := Fire(ctx, Options{InitPath: testenv.Init(), Done: func(Row) {
		if n++; n == 2 {
			time.AfterFunc(20*time.Millisecond, func() { cancel(stop) })
		}
	}})
	if !errors.Is(err, stop) {
		t.Errorf("ended in the middle: %v", err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if now := left(t); now != before {
		t.Errorf("after one that was ended: %s, before: %s", now, before)
	}
}

// left counts what a battery could leave: processes below this one, control
// groups of this process, temporary folders.
func left(t *testing.T) string {
	t.Helper()
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	alive := 0
	for _, c := range children {
		b, _ := os.ReadFile(c)
		alive += len(strings.Fields(string(b)))
	}
	groups := 0
	_ = filepath.WalkDir("/sys/fs/cgroup", func(name string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), fmt.Sprintf("i%d-", os.Getpid())) {
			groups++
		}
		return nil
	})
	folders, err := filepath.Glob("/var/tmp/" + folderPrefix() + "*")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d processes, %d groups, %d folders", alive, groups, len(folders))
}

// Where a layer is missing nothing is fired.
func TestRefusesToFire(t *testing.T) {
	_, err := Fire(t.Context(), Options{InitPath: "/bin/true"})
	if err == nil {
		t.Fatal("it fired without a sandbox")
	}
	if !errors.Is(err, api.ErrSandboxUnavailable) {
		t.Errorf("the error is %v", err)
	}
}

// A pattern picks a group or an attack; one that picks nothing is an error.
func TestPick(t *testing.T) {
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for only, want := range map[string]bool{"filesystem": true, "filesystem/read-*": true, "*/read-canary": true, "network,*/read-canary": true,
		"nothing": false, "[": false, "filesystem/": false, "network,nothing": false, "network,": false} {
		got, err := pick(all, only)
		if (err == nil) != want || err == nil && len(got) == 0 || err != nil && !errors.Is(err, ErrPattern) {
			t.Errorf("%q: %d attacks, %v", only, len(got), err)
		}
	}
}

// An attack whose control makes a user namespace says so, and is not fired where
// the host lets no program do that.
func TestWantsUserNamespaces(t *testing.T) {
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		uses := slices.ContainsFunc(a.files, func(f file) bool { return strings.Contains(string(f.data), "CLONE_NEWUSER") })
		if uses != (a.wants == "user-namespaces") {
			t.Errorf("%s makes user namespaces: %v; wants: %q", a.id(), uses, a.wants)
		}
	}
	for name, tt := range map[string]struct {
		value string
		want  bool
	}{
		"kernel/unprivileged_userns_clone": {"0\n", false}, "user/max_user_namespaces": {"0\n", false},
		"kernel/apparmor_restrict_unprivileged_userns": {"1\n", false}, "kernel/other": {"0\n", true},
	} {
		got := userNamespaces(func(path string) string {
			if path == "/proc/sys/"+name {
				return tt.value
			}
			return ""
		})
		if got != tt.want {
			t.Errorf("%s %q: %v", name, tt.value, got)
		}
	}
}

// checkExported holds what the package takes from outside against a list.
func checkExported(t *testing.T) {
	t.Helper()
	o := reflect.TypeFor[Options]()
	var fields []string
	for i := range o.NumField() {
		fields = append(fields, o.Field(i).Name+" "+o.Field(i).Type.String())
	}
	if want := []string{"InitPath string", "Only string", "Done func(redteam.Row)"}; !slices.Equal(fields, want) {
		t.Errorf("the options are %v, want %v: none may carry a program or a layer", fields, want)
	}
}
