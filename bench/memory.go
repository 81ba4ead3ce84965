package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/api"
)

func defaults() glovebox.Limits { return api.DefaultLimits() }

// memory reads what armed cells cost from the kernel's account of their inits.
func memory() error {
	const cells = 10
	b, err := glovebox.New(options(cells, -1))
	if err != nil {
		return err
	}
	defer b.Close()
	var inits []int
	for begin := time.Now(); len(inits) < cells; time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > 10*time.Second {
			return fmt.Errorf("only %d cells were armed", len(inits))
		}
		inits = descendants("init")
	}
	fmt.Printf("\nmemory of %d armed cells, kB each\n", len(inits))
	for _, name := range []string{"Rss", "Pss", "Private_Clean", "Private_Dirty"} {
		sum := 0
		for _, pid := range inits {
			sum += smaps(pid, name)
		}
		fmt.Printf("%-34s %9d\n", name, sum/len(inits))
	}
	return nil
}

// descendants are the processes of this one whose second argument is the mode.
func descendants(mode string) []int {
	parents := map[int]int{}
	modes := map[int]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(d))
		stat, err := os.ReadFile(d + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		parents[pid], _ = strconv.Atoi(f[1])
		if line, err := os.ReadFile(d + "/cmdline"); err == nil {
			if a := strings.Split(string(line), "\x00"); len(a) > 1 {
				modes[pid] = a[1]
			}
		}
	}
	var found []int
	for pid := range parents {
		at := pid
		for range 8 {
			if at = parents[at]; at == os.Getpid() {
				break
			}
		}
		if at == os.Getpid() && modes[pid] == mode {
			found = append(found, pid)
		}
	}
	return found
}

func smaps(pid int, name string) int {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), name+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(v)[0])
			return n
		}
	}
	return 0
}

func kernel() string {
	var u unix.Utsname
	_ = unix.Uname(&u)
	return "Linux " + unix.ByteSliceToString(u.Release[:])
}

func user() string {
	if os.Geteuid() == 0 {
		return "as root"
	}
	return fmt.Sprintf("as uid %d", os.Geteuid())
}
