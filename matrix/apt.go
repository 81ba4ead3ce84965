//go:build linux

package matrix

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// source is where the machine gets Debian's packages from.
type source struct {
	uri    string
	suites []string
	key    string // path of the keyring, may be empty
}

// mirrors are the archives that kernels come from.
type mirrors struct {
	main, security source
}

// findMirrors takes the archives from the machine's own apt configuration, so
// that what works there works here and no host name is written down.
func findMirrors() (mirrors, error) {
	files := []string{"/etc/apt/sources.list"}
	for _, pattern := range []string{"/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			return mirrors{}, err
		}
		files = append(files, more...)
	}
	var all []source
	for _, name := range files {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return mirrors{}, err
		}
		if strings.HasSuffix(name, ".sources") {
			all = append(all, parseStanzas(text)...)
		} else {
			all = append(all, parseLines(text)...)
		}
	}
	return pickMirrors(all)
}

// codenames are the Debian releases that a machine's sources are known by.
var codenames = []string{"bullseye", "bookworm", "trixie", "forky", "sid", "oldstable", "stable", "testing", "unstable"}

// pickMirrors finds Debian's main archive and its security archive.
func pickMirrors(all []source) (mirrors, error) {
	var m mirrors
	for _, s := range all {
		for _, suite := range s.suites {
			base, security := strings.CutSuffix(strings.Replace(suite, "/updates", "-security", 1), "-security")
			switch {
			case !slices.Contains(codenames, base):
			case security && m.security.uri == "":
				m.security = s
			case !security && m.main.uri == "":
				m.main = s
			}
		}
	}
	if m.main.uri == "" {
		return m, errors.New("the apt sources of this machine name no Debian archive")
	}
	if m.security.uri == "" {
		m.security = m.main
	}
	return m, nil
}

// parseStanzas reads the format of *.sources files.
func parseStanzas(text []byte) []source {
	var all []source
	for stanza := range strings.SplitSeq(string(text), "\n\n") {
		fields := map[string]string{}
		last := ""
		for line := range strings.Lines(stanza) {
			line = strings.TrimRight(line, "\r\n")
			switch {
			case strings.HasPrefix(line, "#"):
			case strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"):
				fields[last] += " " + strings.TrimSpace(line)
			default:
				if name, value, ok := strings.Cut(line, ":"); ok {
					last = strings.ToLower(strings.TrimSpace(name))
					fields[last] = strings.TrimSpace(value)
				}
			}
		}
		if !slices.Contains(strings.Fields(fields["types"]), "deb") || strings.EqualFold(fields["enabled"], "no") {
			continue
		}
		key := fields["signed-by"]
		if !strings.HasPrefix(key, "/") || strings.ContainsAny(key, " \t") {
			key = "" // a key inside the stanza
		}
		for _, uri := range strings.Fields(fields["uris"]) {
			all = append(all, source{uri: uri, suites: strings.Fields(fields["suites"]), key: key})
		}
	}
	return all
}

// oneLine is a line of a *.list file.
var oneLine = regexp.MustCompile(`^deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)`)

// signedBy is the option that names the keyring.
var signedBy = regexp.MustCompile(`signed-by=(/\S+)`)

// parseLines reads the format of *.list files.
func parseLines(text []byte) []source {
	var all []source
	s := bufio.NewScanner(bytes.NewReader(text))
	for s.Scan() {
		m := oneLine.FindStringSubmatch(strings.TrimSpace(s.Text()))
		if m == nil {
			continue
		}
		src := source{uri: m[2], suites: []string{m[3]}}
		if k := signedBy.FindStringSubmatch(m[1]); k != nil {
			src.key = k[1]
		}
		all = append(all, src)
	}
	return all
}

// apt is a private apt directory with the lists of one suite. The machine's
// settings, proxies among them, hold; its lists, cache and packages are not
// touched.
type apt struct{ dir, arch string }

// debianKeyring is the keyring of Debian's own package.
const debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// newAPT sets the directory up for one suite of s.
func newAPT(dir string, s source, suite, arch string) (apt, error) {
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return apt{}, err
		}
	}
	key := debianKeyring
	if _, err := os.Stat(key); err != nil {
		key = s.key
	}
	option := "arch=" + arch
	if key != "" {
		option += " signed-by=" + key
	}
	for name, text := range map[string]string{
		"sources.list": fmt.Sprintf("deb [%s] %s %s main\n", option, s.uri, suite),
		"status":       "",
		"apt.conf":     "#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n#clear APT::Update::Pre-Invoke;\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return apt{}, err
		}
	}
	return apt{dir, arch}, nil
}

// run starts an apt program in folder wd and returns what it printed.
func (a apt) run(ctx context.Context, wd, program string, args ...string) (string, error) {
	options := []string{"-q", "-c", filepath.Join(a.dir, "apt.conf")}
	for _, o := range []string{
		"APT::Architecture=" + a.arch,
		"APT::Architectures=" + a.arch,
		"Dir::State=" + a.dir,
		"Dir::State::lists=" + filepath.Join(a.dir, "lists"),
		"Dir::State::status=" + filepath.Join(a.dir, "status"),
		"Dir::Cache=" + filepath.Join(a.dir, "cache"),
		"Dir::Etc::sourcelist=" + filepath.Join(a.dir, "sources.list"),
		"Dir::Etc::sourceparts=/dev/null",
		"Dir::Etc::preferences=/dev/null",
		"Dir::Etc::preferencesparts=/dev/null",
		"Acquire::Languages=none",
		"Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
		"Acquire::Check-Valid-Until=false", // a suite out of support is not signed anew
		"Acquire::Retries=2",
		"APT::Update::Error-Mode=any",
	} {
		options = append(options, "-o", o)
	}
	if os.Geteuid() == 0 {
		options = append(options, "-o", "APT::Sandbox::User=root")
	}
	cmd := exec.CommandContext(ctx, program, append(options, args...)...)
	cmd.Dir = wd
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, lastLines(stderr.String(), 4))
	}
	return stdout.String(), nil
}

// dependency is the concrete package of a metapackage.
var dependency = regexp.MustCompile(`(?m)^Depends:.*?\b(linux-image-[0-9][^\s,]*)`)

// imageOf resolves a metapackage to the newest package with a kernel.
func (a apt) imageOf(ctx context.Context, meta string) (string, error) {
	text, err := a.run(ctx, a.dir, "apt-cache", "show", "--no-all-versions", meta)
	if err != nil {
		return "", err
	}
	m := dependency.FindStringSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%s depends on no kernel package", meta)
	}
	return m[1], nil
}

// lastLines is the end of a text, on one line.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "; ")
}
