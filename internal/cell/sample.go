package cell

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sampleEvery is how often memory is added up where no control group bounds it.
const sampleEvery = 20 * time.Millisecond

// sampled says what stands in for a control group.
const sampled = "memory: sampled; tasks: bounded by RLIMIT_NPROC"

// initTasks are the threads of init that carry the guest's uid: the sealed one,
// the one that answers for refused calls and the one that passes signals on.
const initTasks = 3

// taskLimit is the RLIMIT_NPROC of a guest without a control group. The kernel
// counts by uid. A cell with a uid of its own has exactly its share; the cells
// of an ordinary user are counted together with all else that is his, so the
// limit is that much above what runs on the machine now.
func (h *Host) taskLimit(pids int64) uint64 {
	if h.ids != nil && !h.off("privileges") {
		return uint64(pids + initTasks)
	}
	var si unix.Sysinfo_t
	_ = unix.Sysinfo(&si) // fails for a bad address only
	return uint64(si.Procs) + uint64(pids)
}

// sample adds up the resident memory of the cell's processes and ends the cell
// above its limit. It exists for hosts without control groups under auto; a
// burst between two samples is not seen, and the result says so.
func (r *run) sample() time.Duration {
	if r.h.off("sample") {
		return sampleEvery
	}
	total, cpu := r.residentBytes()
	if total > r.job.Limits.MemoryBytes {
		r.stop(causeMemory, "")
	}
	if cpu >= r.job.Limits.CPUMS {
		r.stop(causeCPU, "")
	}
	return sampleEvery
}

// residentBytes reads the cell's own proc through the root of its init, which
// shows the processes of its pid namespace and no others.
func (r *run) residentBytes() (bytes, cpuMS int64) {
	fd, err := unix.Openat(r.c.witness.Dir(), "root/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0
	}
	proc := os.NewFile(uintptr(fd), "proc")
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if _, err := strconv.Atoi(name); err != nil || name == "1" {
			continue
		}
		f := strings.Fields(readAt(fd, name+"/statm"))
		if len(f) >= 2 {
			pages, _ := strconv.ParseInt(f[1], 10, 64)
			bytes += pages * int64(os.Getpagesize())
		}
		cpuMS += cpuOf(readAt(fd, name+"/stat"))
	}
	return bytes, cpuMS
}

// cpuOf reads user and system time of a stat line, see proc_pid_stat(5); a tick
// is 10 ms on every Linux port.
func cpuOf(stat string) int64 {
	i := strings.LastIndexByte(stat, ')')
	f := strings.Fields(stat[i+1:])
	if len(f) < 13 {
		return 0
	}
	u, _ := strconv.ParseInt(f[11], 10, 64)
	s, _ := strconv.ParseInt(f[12], 10, 64)
	return (u + s) * 10
}

func readAt(dir int, name string) string {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	buf := make([]byte, 1024)
	n, _ := unix.Read(fd, buf)
	return string(buf[:max(n, 0)])
}
