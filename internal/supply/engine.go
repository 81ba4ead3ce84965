package supply

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// EngineRelease is a release of WebKitGTK, which has the JavaScript engine.
type EngineRelease struct{ Major, Minor, Micro int }

func (r EngineRelease) String() string { return fmt.Sprintf("%d.%d.%d", r.Major, r.Minor, r.Micro) }

// Stable tells whether it is a release for users: even minor numbers are, and
// micro numbers from 90 on are candidates.
func (r EngineRelease) Stable() bool { return r.Minor%2 == 0 && r.Micro < 90 }

// Compare is negative if r is older than o, 0 if it is the same, else positive.
func (r EngineRelease) Compare(o EngineRelease) int {
	return cmp.Or(r.Major-o.Major, r.Minor-o.Minor, r.Micro-o.Micro)
}

var engineVersion = regexp.MustCompile(`^(\d{1,4})\.(\d{1,4})\.(\d{1,4})`)

// ParseEngineRelease reads the release at the beginning of a version, such as
// Debian's "2.50.6-1~deb12u2".
func ParseEngineRelease(s string) (EngineRelease, error) {
	m := engineVersion.FindStringSubmatch(s)
	if m == nil {
		return EngineRelease{}, fmt.Errorf("%q is no release of WebKitGTK", s)
	}
	var n [3]int
	for i := range n {
		n[i], _ = strconv.Atoi(m[i+1]) // at most four digits
	}
	return EngineRelease{n[0], n[1], n[2]}, nil
}

// EngineSource is a place that knows the newest release.
type EngineSource struct {
	URL  string
	Read func(io.Reader) (EngineRelease, error)
}

// EngineSources are asked in this order; the first that answers counts. Debian's
// newest suite follows upstream by some days.
var EngineSources = []EngineSource{
	{"https://webkitgtk.org/releases/", ReadUpstream},
	{"https://deb.debian.org/debian/dists/sid/main/binary-amd64/Packages.gz", ReadDebian},
}

// What an answer may have: compressed and unpacked bytes, and time.
const (
	mostAnswer   = 64 << 20
	mostUnpacked = 512 << 20
	mostTime     = 60 * time.Second
)

// NewestEngine asks the sources. The error says what was wrong with each.
func NewestEngine(client *http.Client, sources []EngineSource) (r EngineRelease, from string, err error) {
	bounded := *client
	bounded.Timeout = mostTime
	var errs []error
	for _, s := range sources {
		if r, err := ask(&bounded, s); err == nil {
			return r, s.URL, errors.Join(errs...)
		} else {
			errs = append(errs, err)
		}
	}
	return r, "", errors.Join(errs...)
}

func ask(client *http.Client, s EngineSource) (EngineRelease, error) {
	answer, err := client.Get(s.URL)
	if err != nil {
		return EngineRelease{}, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return EngineRelease{}, fmt.Errorf("%s answers %s", s.URL, answer.Status)
	}
	r, err := s.Read(io.LimitReader(answer.Body, mostAnswer))
	if err != nil {
		err = fmt.Errorf("%s: %w", s.URL, err)
	}
	return r, err
}

var tarball = regexp.MustCompile(`webkitgtk-(\d{1,4}\.\d{1,4}\.\d{1,4})\.tar\.xz"`)

// ReadUpstream reads the list of upstream's archives.
func ReadUpstream(page io.Reader) (newest EngineRelease, err error) {
	text, err := io.ReadAll(page)
	if err != nil {
		return newest, err
	}
	for _, m := range tarball.FindAllSubmatch(text, -1) {
		r, err := ParseEngineRelease(string(m[1]))
		if err == nil && r.Stable() && r.Compare(newest) > 0 {
			newest = r
		}
	}
	if newest == (EngineRelease{}) {
		return newest, errors.New("no stable release is listed")
	}
	return newest, nil
}

// ReadDebian reads a compressed list of Debian's packages.
func ReadDebian(packed io.Reader) (newest EngineRelease, err error) {
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return newest, err
	}
	lines := bufio.NewScanner(io.LimitReader(unpacked, mostUnpacked))
	lines.Buffer(nil, 1<<20)
	ours := false
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "Package":
			ours = strings.HasPrefix(value, "libjavascriptcoregtk-") && !strings.HasSuffix(value, "-dev") && !strings.HasSuffix(value, "-bin")
		case name == "Version" && ours:
			if r, err := ParseEngineRelease(value); err == nil && r.Stable() && r.Compare(newest) > 0 {
				newest = r
			}
		}
	}
	if err := lines.Err(); err != nil {
		return newest, err
	}
	if newest == (EngineRelease{}) {
		return newest, errors.New("no package has the engine")
	}
	return newest, nil
}
