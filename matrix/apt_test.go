//go:build linux

package matrix

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const stanzas = `# a comment
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
# another
Components: main
Signed-By: /usr/share/keyrings/some.gpg

Types: deb-src
URIs: http://sources.example/debian
Suites: bookworm

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm

Types: deb
URIs: http://mirror.example/debian-security
Suites:
 bookworm-security
Components: main
`

const lines = `deb-src http://sources.example/debian bookworm main
# deb http://off.example/debian bookworm main
deb [signed-by=/k.gpg arch=amd64] http://other.example/tool stable-tool main
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bullseye main contrib
deb http://mirror.example/old-security bullseye/updates main
`

func TestMirrorsComeFromTheMachinesSources(t *testing.T) {
	m, err := pickMirrors(parseStanzas([]byte(stanzas)))
	if err != nil {
		t.Fatal(err)
	}
	if m.main.uri != "http://mirror.example/debian" || m.security.uri != "http://mirror.example/debian-security" {
		t.Errorf("stanzas: %+v", m)
	}
	if m.main.key != "/usr/share/keyrings/some.gpg" {
		t.Errorf("key %q", m.main.key)
	}
	m, err = pickMirrors(parseLines([]byte(lines)))
	if err != nil {
		t.Fatal(err)
	}
	if m.main.uri != "http://mirror.example/debian" || m.security.uri != "http://mirror.example/old-security" || m.main.key != "/k.gpg" {
		t.Errorf("lines: %+v", m)
	}
	if _, err := pickMirrors(parseLines([]byte("deb http://mirror.example/ubuntu noble main\n"))); err == nil {
		t.Error("a machine without Debian sources has mirrors")
	}
}

func TestUnknownKernelIsNamed(t *testing.T) {
	for unknown, arch := range map[string]string{"4.19": "amd64", "6.1": "mips"} {
		named := unknown
		if arch != "amd64" {
			named = arch
		}
		_, err := Fetch(context.Background(), unknown, arch)
		if err == nil || !strings.Contains(err.Error(), strconv.Quote(named)) {
			t.Errorf("got %v", err)
		}
	}
}

func TestEveryKernelHasSuites(t *testing.T) {
	for name := range suites {
		if !slices.Contains(Names(), name) {
			t.Errorf("%s is not in Names", name)
		}
	}
	if len(suites) != len(Names()) {
		t.Errorf("%d kernels and %d names", len(suites), len(Names()))
	}
}
