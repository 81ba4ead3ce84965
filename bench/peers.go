package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed peers
var peerFiles embed.FS

// child is a peer's process, which is spoken to in lines of JSON.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// spawn starts a peer. The context's end kills it.
func spawn(ctx context.Context, dir string, argv ...string) (*child, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stderr = dir, io.Discard
	cmd.Env = append(os.Environ(), "DENO_NO_UPDATE_CHECK=1", "DENO_DIR="+filepath.Join(dir, "deno-dir"))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd, in, bufio.NewReaderSize(out, 1<<16)}, nil
}

func (c *child) send(m any) error {
	line, err := json.Marshal(m)
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	return err
}

func (c *child) receive(into any) error {
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(c.cmd.Path), err)
	}
	return json.Unmarshal(line, into)
}

// end closes its input, which ends it, and waits.
func (c *child) end() error {
	_ = c.in.Close()
	_, _ = io.Copy(io.Discard, c.out)
	return c.cmd.Wait()
}

// evaluate has a pipe's peer evaluate, and answers its calls as the host's
// functions would.
func (c *child) evaluate(code string) (any, error) {
	if err := c.send(map[string]any{"code": code}); err != nil {
		return nil, err
	}
	for {
		var m map[string]any
		if err := c.receive(&m); err != nil {
			return nil, err
		}
		argument, called := m["call"]
		if !called {
			return m["value"], nil
		}
		answer := 1.0
		if n, ok := argument.(float64); ok {
			answer = n + 1
		}
		if err := c.send(map[string]any{"answer": answer}); err != nil {
			return nil, err
		}
	}
}

// measure has a peer that measures itself do something n times.
func (c *child) measure(do string, n int, code string) ([]time.Duration, error) {
	if err := c.send(map[string]any{"do": do, "n": n, "code": code}); err != nil {
		return nil, err
	}
	var m struct{ NS []time.Duration }
	if err := c.receive(&m); err != nil {
		return nil, err
	}
	if len(m.NS) != n {
		return nil, fmt.Errorf("%d times of %d", len(m.NS), n)
	}
	return m.NS, nil
}

// piped is a peer over a pipe, which Go measures as it does Glovebox.
func piped(ctx context.Context, name, wall, dir string, argv ...string) (*contender, error) {
	c, err := spawn(ctx, dir, argv...)
	if err != nil {
		return nil, err
	}
	v := &contender{name: name, wall: wall, close: c.end, idle: func() (memoryUse, error) { return use(c.cmd.Process.Pid), nil }}
	v.eval = func(n int, code string) ([]time.Duration, error) {
		return timed(n, func() error { _, err := c.evaluate(code); return err })
	}
	v.cold = func(n int) ([]time.Duration, error) {
		var took []time.Duration
		for range n {
			begin := time.Now()
			other, err := spawn(ctx, dir, argv...)
			if err != nil {
				return nil, err
			}
			if _, err = other.evaluate(onePlusOne); err == nil {
				took = append(took, time.Since(begin))
			}
			if err := errors.Join(err, other.end()); err != nil {
				return nil, err
			}
		}
		return took, nil
	}
	return v, nil
}

// inside is a peer whose host is its own process, which measures itself.
func inside(ctx context.Context, name, wall, dir string, argv ...string) (*contender, error) {
	c, err := spawn(ctx, dir, argv...)
	if err != nil {
		return nil, err
	}
	v := &contender{name: name, wall: wall, close: c.end}
	v.eval = func(n int, code string) ([]time.Duration, error) { return c.measure("eval", n, code) }
	v.cold = func(n int) ([]time.Duration, error) { return c.measure("cold", n, onePlusOne) }
	v.idle = func() (memoryUse, error) { // what ten more take of the process
		before := use(c.cmd.Process.Pid)
		if _, err := c.measure("idle", 10, onePlusOne); err != nil {
			return memoryUse{}, err
		}
		return use(c.cmd.Process.Pid).less(before, 10), nil
	}
	return v, nil
}

// installed is the folder of a peer that npm brings, by the pinned version and
// digests of its files here.
func installed(ctx context.Context, name string, scripts bool) (string, error) {
	sum := sha256.New()
	from, err := fs.Sub(peerFiles, "peers/"+name)
	if err != nil {
		return "", err
	}
	for _, file := range []string{"package.json", "package-lock.json"} {
		text, err := fs.ReadFile(from, file)
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	dir, err := filepath.Abs(filepath.Join(*downloads, "peer-"+name+"-"+hex.EncodeToString(sum.Sum(nil)[:8])))
	if err != nil {
		return "", err
	}
	if err := copyFiles(from, dir); err != nil {
		return "", err
	}
	done := filepath.Join(dir, "done")
	if _, err := os.Stat(done); err == nil {
		return dir, nil
	}
	args := []string{"ci", "--no-audit", "--no-fund"}
	if !scripts {
		args = append(args, "--ignore-scripts")
	}
	cmd := exec.CommandContext(ctx, "npm", args...)
	// What is native is compiled here: a prebuilt file would come from nowhere that has its digest.
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "npm_config_build_from_source=true")
	if out, err := cmd.CombinedOutput(); err != nil {
		text := strings.TrimSpace(string(out))
		return "", fmt.Errorf("npm ci: %w: …%s", err, text[max(0, len(text)-300):])
	}
	return dir, os.WriteFile(done, nil, 0o644)
}

// copyFiles copies the files of one folder.
func copyFiles(from fs.FS, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := fs.ReadDir(from, ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		text, err := fs.ReadFile(from, e.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, e.Name()), text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bwrapped is bubblewrap's command line for a program of /usr that reads one
// folder.
func bwrapped(dir string) []string {
	return []string{"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", dir, "/box", "--chdir", "/box"}
}

// nodePeer puts the peers' drivers into a folder and finds node.
func nodePeer() (dir, node string, err error) {
	from, _ := fs.Sub(peerFiles, "peers")
	if dir, err = filepath.Abs(filepath.Join(*downloads, "peers")); err == nil {
		if err = copyFiles(from, dir); err == nil {
			err = os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o644)
		}
	}
	node, missing := exec.LookPath("node")
	return dir, node, errors.Join(err, missing)
}

// peers starts those that can be had, and names the others.
func peers(ctx context.Context) (all []*contender, absent []string) {
	add := func(name string, v *contender, err error) {
		if err == nil {
			_, err = v.eval(1, onePlusOne)
		}
		if err != nil {
			absent = append(absent, fmt.Sprintf("%s: %v", name, err))
			return
		}
		all = append(all, v)
	}
	dir, node, err := nodePeer()
	if err != nil {
		return nil, []string{"node, worker_threads, isolated-vm, Deno: " + err.Error()}
	}
	v, err := piped(ctx, "node --jitless over a pipe", "none", dir, node, "--jitless", "pipe.js")
	add("node --jitless", v, err)
	v, err = piped(ctx, "the same in bubblewrap", "namespaces", dir, append(bwrapped(dir), node, "--jitless", "pipe.js")...)
	if err == nil {
		v.idle = nil // its process is bubblewrap
	}
	add("node --jitless in bubblewrap", v, err)
	v, err = inside(ctx, "worker_threads", "none", dir, node, "threads.js")
	add("worker_threads", v, err)

	deno, err := installed(ctx, "deno", false)
	if err == nil {
		var found []string
		if found, err = filepath.Glob(filepath.Join(deno, "node_modules/@deno/*/deno")); err == nil && len(found) == 0 {
			err = errors.New("its package has no program for this machine")
		}
		if err == nil {
			v, err = piped(ctx, "Deno over a pipe", "its permissions", dir, found[0], "run", "--no-prompt", "--no-lock", "--no-config", "pipe.js")
		}
	}
	add("Deno", v, err)

	isolated, err := installed(ctx, "isolated", true)
	for _, own := range []string{"caller's thread", "own thread"} {
		if err == nil {
			v, err = inside(ctx, "isolated-vm, "+own, "an isolate", isolated, node, "--no-node-snapshot", "isolated.js", strings.Fields(own)[0])
		}
		add("isolated-vm, "+own, v, err)
	}
	return all, absent
}
