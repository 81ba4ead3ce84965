// The command refresh compares the system call tables with the kernel headers
// of Debian's linux-libc-dev and says what differs:
//
//	go run ./internal/seccomp/headers/refresh                # those installed here
//	go run ./internal/seccomp/headers/refresh -suite sid     # the newest, fetched into a temporary folder
//	go run ./internal/seccomp/headers/refresh -suite sid -write
//
// It changes nothing without -write. It exits with 1 if the headers have a
// call that a table lacks, or another number. Each new call then needs a row
// in policy/language.txt, or the tests fail; see package seccomp. With -suite
// it needs apt and the network; it keeps lists and packages to itself.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/seccomp/headers"
)

func main() {
	include := flag.String("include", "/usr/include", "where the headers are")
	origin := flag.String("origin", "", "what is written into the tables as their origin; default: the package's name and version")
	suite := flag.String("suite", "", "fetch the package of this Debian suite instead, such as sid")
	mirror := flag.String("mirror", "http://deb.debian.org/debian", "where -suite fetches from")
	write := flag.Bool("write", false, "write the tables anew")
	tables := flag.String("tables", "internal/seccomp/tables", "where the tables are")
	flag.Parse()
	differ, err := run(*include, *origin, *suite, *mirror, *tables, *write)
	if err != nil {
		fmt.Fprintln(os.Stderr, "refresh:", err)
		os.Exit(2)
	}
	if differ {
		os.Exit(1)
	}
}

// run compares all tables and says whether one lacks something.
func run(include, origin, suite, mirror, tables string, write bool) (differ bool, err error) {
	if suite != "" {
		dir, err := os.MkdirTemp("", "glovebox-headers-")
		if err != nil {
			return false, err
		}
		defer os.RemoveAll(dir)
		if origin, err = fetch(dir, mirror, suite); err != nil {
			return false, err
		}
		include = filepath.Join(dir, "x", "usr", "include")
	}
	if origin == "" {
		out, err := exec.Command("dpkg-query", "-W", "-f", "${Package} ${Version}", "linux-libc-dev").Output()
		if err != nil {
			return false, fmt.Errorf("dpkg-query: %w (or name the headers' -origin)", err)
		}
		origin = string(out)
	}
	fmt.Println("headers:", origin)
	found := 0
	for _, name := range headers.Tables {
		header, file, err := headers.Read(include, name)
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Printf("%s: not compared: %v\n", name, err)
			continue
		}
		if err != nil {
			return false, err
		}
		found++
		d, err := one(filepath.Join(tables, name+".tsv"), name, origin+", "+file, header, write)
		if err != nil {
			return false, err
		}
		differ = differ || len(d.New)+len(d.Changed) > 0
	}
	if found == 0 {
		return false, fmt.Errorf("no headers below %s", include)
	}
	return differ, nil
}

// one compares one table, says what differs, and writes it if asked to.
func one(path, name, origin string, header map[string]int, write bool) (headers.Diff, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return headers.Diff{}, err
	}
	table, err := headers.ParseTable(string(raw))
	if err != nil {
		return headers.Diff{}, fmt.Errorf("%s: %w", path, err)
	}
	d := headers.Compare(table, header)
	fmt.Printf("%s: %d calls, %d in the headers\n", name, len(table), len(header))
	for _, part := range []struct {
		what  string
		calls []string
	}{{"missing in the table", d.New}, {"another number in the table", d.Changed}, {"in the table alone", d.Older}} {
		for _, call := range part.calls {
			fmt.Printf("  %s: %s\n", part.what, call)
		}
	}
	if write {
		err = os.WriteFile(path, []byte(headers.Format(name, origin, table, header)), 0o644)
	}
	return d, err
}

// fetch brings linux-libc-dev of a suite into a folder and unpacks it to x
// there. It uses lists and a cache of its own, so that the machine's apt does
// not change, and the machine's keys. It returns the package's name and
// version.
func fetch(dir, mirror, suite string) (string, error) {
	for _, sub := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return "", err
		}
	}
	source := fmt.Sprintf("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n", mirror, suite)
	for name, text := range map[string]string{"sources.list": source, "status": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	options := []string{"-q", "-o", "Dir::Etc::sourcelist=" + dir + "/sources.list", "-o", "Dir::Etc::sourceparts=-",
		"-o", "Dir::State=" + dir + "/state", "-o", "Dir::State::status=" + dir + "/status", "-o", "Dir::Cache=" + dir + "/cache",
		"-o", "Acquire::Languages=none", "-o", "APT::Sandbox::User=root"}
	for _, args := range [][]string{{"update"}, {"download", "linux-libc-dev"}} {
		cmd := exec.Command("apt-get", append(options, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("apt-get %s: %w\n%s", args[0], err, out)
		}
	}
	debs, err := filepath.Glob(filepath.Join(dir, "linux-libc-dev_*.deb"))
	if err != nil || len(debs) != 1 {
		return "", fmt.Errorf("apt-get fetched %d packages", len(debs))
	}
	if out, err := exec.Command("dpkg-deb", "-x", debs[0], filepath.Join(dir, "x")).CombinedOutput(); err != nil {
		return "", fmt.Errorf("dpkg-deb: %w\n%s", err, out)
	}
	version, err := exec.Command("dpkg-deb", "-f", debs[0], "Version").Output()
	return "Debian's linux-libc-dev " + strings.TrimSpace(string(version)), err
}
