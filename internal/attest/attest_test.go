package attest

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cellproto"
)

// A probe that gets through, one that is refused by something else, and one that
// was not answered are three different breaches.
//
// proves part of T-05 H-22
func TestJudge(t *testing.T) {
	names := []string{"open-root-dir", "tmpfile-usr", "clone3"}
	good := []cellproto.ProbeResult{{Name: "open-root-dir", Errno: uint64(unix.EACCES)}, {Name: "tmpfile-usr", Errno: uint64(unix.EROFS)}, {Name: "clone3", Errno: uint64(unix.ENOSYS)}}
	if bad := Judge(names, good); len(bad) != 0 {
		t.Fatalf("good answers: %v", bad)
	}
	for _, c := range []struct {
		change func([]cellproto.ProbeResult) []cellproto.ProbeResult
		say    string
	}{
		{func(r []cellproto.ProbeResult) []cellproto.ProbeResult { r[0].Errno = 0; return r }, "got through"},
		{func(r []cellproto.ProbeResult) []cellproto.ProbeResult { r[0].Errno = uint64(unix.ENOENT); return r }, "ENOENT, which is not the answer of landlock"},
		{func(r []cellproto.ProbeResult) []cellproto.ProbeResult { return r[1:] }, "was not answered"},
	} {
		bad := Judge(names, c.change(append([]cellproto.ProbeResult(nil), good...)))
		if len(bad) != 1 || !strings.Contains(bad[0].Error(), c.say) {
			t.Errorf("want %q, got %v", c.say, bad)
		}
	}
}

// Lines of mountinfo that no cell may have are refused, each for its own reason.
//
// proves part of H-14
func TestCheckMounts(t *testing.T) {
	const fine = "21 1 0:75 / / ro,nosuid,nodev,noexec - tmpfs none rw\n22 21 254:0 /usr /usr ro,nosuid,nodev - ext4 /dev/vda rw\n" +
		"23 21 0:80 /box /box rw,nosuid,nodev - tmpfs none rw\n24 21 0:81 / /proc ro,nosuid - proc none rw\n25 24 0:75 /e /proc/keys ro,nosuid - tmpfs none rw"
	for line, want := range map[string]string{
		"": "",
		"26 21 254:0 /usr/x /usr/x rw,nosuid - ext4 /dev/vda rw":        "writable",
		"26 21 254:0 /usr/x /usr/x ro - ext4 /dev/vda rw":               "nosuid",
		"26 21 254:0 /usr/x /usr/x ro,nosuid master:1 - ext4 /dev/v rw": "private",
		"26 21 254:0 /home /home ro,nosuid - ext4 /dev/vda rw":          "not on the list",
		"26 21 0:5 / /proc/x ro,nosuid - proc proc rw":                  "not on the list",
		"26 21 254:0 /x /box rw,nosuid - ext4 /dev/vda rw":              "not a tmpfs",
	} {
		var mounts []Mount
		for _, l := range strings.Split(strings.TrimSpace(fine+"\n"+line), "\n") {
			m, err := ParseMount(l)
			if err != nil {
				t.Fatal(err)
			}
			mounts = append(mounts, m)
		}
		err := CheckMounts(mounts, []string{"/usr"}, false)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	if _, err := ParseMount("26 21 nonsense"); err == nil {
		t.Error("nonsense was read")
	}
}

// The octal escapes of mountinfo are undone before a path is used.
func TestOnlyRoots(t *testing.T) {
	for list, want := range map[string]bool{
		"0::/\n": true, "4:memory:/\n3:cpu,cpuacct:/\n0::/\n": true, "": true,
		"0::/glovebox/c1\n": false, "4:memory:/\n3:cpu:/x\n": false, "4:memory:/x\n3:cpu:/\n": false, "0::/..\n": false, "\n": false, "x": false,
	} {
		if got := onlyRoots([]byte(list)); got != want {
			t.Errorf("%q: %v", list, got)
		}
	}
}

func TestUnescape(t *testing.T) {
	if got := Unescape(`/a\040b\011c\012d\134e`); got != "/a b\tc\nd\\e" {
		t.Errorf("%q", got)
	}
}
