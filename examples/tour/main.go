// Command tour runs the sample programs of examples/ through bin/glovebox and
// prints how each one ended, then what this host can enforce. It runs at the
// repository's root, after make build.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/api"
)

// stop is one program of the tour and the verdict that it earns.
type stop struct {
	name string
	args []string // of glovebox run --json
	want api.Verdict
}

// stops lists the tour; dir is where the programs are.
func stops(dir string) []stop {
	file := func(name string) string { return filepath.Join(dir, name) }
	return []stop{
		{"/bin/true", []string{"--", "/bin/true"}, api.OK},
		{"hello.py", []string{file("hello.py")}, api.OK},
		{"pipeline.sh", []string{file("pipeline.sh")}, api.OK},
		{"primes.c", []string{file("primes.c"), "10000"}, api.OK},
		{"report.py, *.csv", []string{"--artifact", "*.csv", file("report.py")}, api.OK},
		{"broken.c", []string{file("broken.c")}, api.CompileError},
		{"loop.py, 500 ms", []string{"--wall", "500ms", file("loop.py")}, api.Timeout},
		{"memory.py, 64 MiB", []string{"--memory", "64MiB", file("memory.py")}, api.MemoryLimit},
		{"forks.py, 32 processes", []string{"--pids", "32", "--wall", "1s", file("forks.py")}, api.Timeout},
		{"escape.py", []string{file("escape.py")}, api.OK},
		{"denied.py", []string{file("denied.py")}, api.Denied},
	}
}

func main() {
	bin := flag.String("bin", "bin/glovebox", "the glovebox `program`")
	dir := flag.String("examples", "examples", "`directory` of the sample programs")
	flag.Parse()
	wrong, err := tour(os.Stdout, *bin, *dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tour:", err)
		os.Exit(1)
	}
	if wrong > 0 {
		fmt.Fprintf(os.Stderr, "tour: %d programs did not end as they should\n", wrong)
		os.Exit(1)
	}
}

// tour runs all stops and the status, and returns how many programs ended in
// another way than they should.
func tour(w io.Writer, bin, dir string) (wrong int, err error) {
	fmt.Fprintf(w, "%-24s %-14s %6s %9s  %s\n", "program", "verdict", "exit", "time", "")
	said := ""
	for _, s := range stops(dir) {
		result, complaint, err := run(bin, s.args)
		if err != nil {
			return wrong, err
		}
		if result == nil {
			wrong++
			if complaint == said {
				complaint = "for the same reason"
			} else {
				said = complaint
			}
			fmt.Fprintf(w, "%-24s not run: %s\n", s.name, complaint)
			continue
		}
		note := remark(result)
		if result.Verdict != s.want {
			wrong++
			note = fmt.Sprintf("should be %s! %s", s.want, note)
		}
		fmt.Fprintf(w, "%-24s %-14s %6s %6.0f ms  %s\n", s.name, result.Verdict, exit(result), result.WallMS, note)
	}
	fmt.Fprintln(w)
	status := exec.Command(bin, "status")
	status.Stdout, status.Stderr = w, w
	status.WaitDelay = time.Second
	var incomplete *exec.ExitError
	if err := status.Run(); err != nil && !errors.As(err, &incomplete) {
		return wrong, err
	}
	return wrong, nil
}

// run runs one program. Without a result, the complaint is what glovebox said
// instead.
func run(bin string, args []string) (result *api.Result, complaint string, err error) {
	cmd := exec.Command(bin, append([]string{"run", "--json"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// Its own exit status is the program's and is in the result too.
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return nil, "", err
	}
	result = &api.Result{}
	if json.Unmarshal(stdout.Bytes(), result) != nil || result.Verdict == "" {
		return nil, strings.TrimSpace(stderr.String()), nil
	}
	return result, "", nil
}

func exit(r *api.Result) string {
	switch {
	case r.ExitCode != nil:
		return strconv.Itoa(*r.ExitCode)
	case r.Signal != "":
		return strings.TrimPrefix(r.Signal, "SIG")
	}
	return "-"
}

// remark is what is worth saying of a result, on one line. What comes from the
// program is quoted, for it could hold anything.
func remark(r *api.Result) string {
	var parts []string
	for _, s := range []string{r.Cause, r.Syscall, r.Stage, r.Message} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if r.OOMKills != nil && *r.OOMKills > 0 {
		parts = append(parts, fmt.Sprintf("%d killed for memory", *r.OOMKills))
	}
	if r.PidsMaxHits != nil && *r.PidsMaxHits > 0 {
		parts = append(parts, fmt.Sprintf("%d forks refused", *r.PidsMaxHits))
	}
	if r.Compile != nil {
		parts = append(parts, fmt.Sprintf("compiler: %.0f ms", r.Compile.WallMS))
	}
	for _, a := range r.Artifacts {
		parts = append(parts, fmt.Sprintf("%q given back, %d bytes", a.Name, a.Size))
	}
	for _, a := range r.RefusedArtifacts {
		parts = append(parts, fmt.Sprintf("%q refused: %.60q", a.Name, a.Reason))
	}
	for _, text := range []string{r.Stdout, r.Stderr} {
		if line, _, _ := strings.Cut(strings.TrimSpace(text), "\n"); line != "" {
			parts = append(parts, fmt.Sprintf("%.60q", line))
		}
	}
	return strings.Join(parts, ", ")
}
