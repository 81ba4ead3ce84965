package glovebox_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox"
)

// The size of every memory bomb, above the limit of the cell and harmless for
// the host when the control lets it through.
const (
	bombMiB      = 96
	bombLimitMiB = 64
	mib          = 1 << 20
)

// memoryBombs take 96 MiB of one kind each and then say so.
var memoryBombs = []struct{ name, source string }{
	{"heap", `int main(){for(int i=0;i<96;i++){char*p=malloc(MIB);want(p!=0,"malloc");fill(p,1,MIB);}puts("done");}`},
	{"huge pages", `int main(){char*p=mmap(0,96*MIB,3,MAP_PRIVATE|MAP_ANON,-1,0);madvise(p,96*MIB,MADV_HUGEPAGE);fill(p,1,96*MIB);puts("done");}`},
	{"small mappings", `int main(){for(int i=0;i<24576;i++){char*p=mmap(0,8192,3,MAP_PRIVATE|MAP_ANON,-1,0);want(p!=MAP_FAILED,"mmap");
		mprotect(p+4096,4096,0);*p=1;}puts("done");}`},
	{"page tables", `int main(){long step=2*MIB,n=24576;char*p=mmap(0,n*step,3,MAP_PRIVATE|MAP_ANON|MAP_NORESERVE,-1,0);
		want(p!=MAP_FAILED,"mmap");madvise(p,n*step,MADV_NOHUGEPAGE);volatile char c;for(long i=0;i<n;i++)c=p[i*step];puts("done");}`},
	{"tmp", fileBomb("/tmp/x")}, {"box", fileBomb("/box/x")}, {"posix shm", fileBomb("/dev/shm/x")},
	{"memfd", `int main(){int fd=syscall(SYS_memfd_create,"x",0);want(fd>=0,"memfd");char*b=malloc(MIB);fill(b,1,MIB);
		for(int i=0;i<96;i++)want(write(fd,b,MIB)==MIB,"write");puts("done");}`},
	{"shared anonymous", `int main(){char*p=mmap(0,96*MIB,3,MAP_SHARED|MAP_ANON,-1,0);want(p!=MAP_FAILED,"mmap");fill(p,1,96*MIB);puts("done");}`},
	{"many processes", `int main(){for(int i=0;i<48;i++){int p[2];pipe(p);if(!fork()){char*m=malloc(2*MIB);fill(m,i,2*MIB);write(p[1],"x",1);for(;;)pause();}
		char c;close(p[1]);want(read(p[0],&c,1)==1,"a child died");close(p[0]);}
		want(waitpid(-1,0,WNOHANG)==0,"a child died");puts("done");}`},
	// The kernel gives a user's pipes 64 MiB in all, then small ones: half the limit.
	{"pipes", `int main(){char b[4096]={1};for(int i=0;i<960;i++){int p[2];want(!pipe(p),"pipe");fcntl(p[1],F_SETFL,O_NONBLOCK);
		for(int k=0;k<16;k++)want(write(p[1],b,4096)==4096,"write");}puts("done");}`},
	{"sockets", `int main(){char b[8192]={1};for(long n=0;n<96*MIB;){int p[2];want(!socketpair(AF_UNIX,SOCK_STREAM,0,p),"socketpair");
		fcntl(p[0],F_SETFL,O_NONBLOCK);fcntl(p[1],F_SETFL,O_NONBLOCK);
		for(int k=0;k<2;k++)for(long w;(w=write(p[k],b,8192))>0;)n+=w;}puts("done");}`},
	{"directory entries", `int main(){char n[300];for(int i=0;i<90000;i++){memset(n,'x',250);sprintf(n,"/tmp/%08d",i);n[13]='x';n[240]=0;
		int fd=open(n,O_CREAT|O_WRONLY,0600);want(fd>=0,"open");close(fd);}puts("done");}`},
}

func fileBomb(path string) string {
	return `int main(){int fd=open("` + path + `",O_CREAT|O_WRONLY,0600);want(fd>=0,"open");char*b=malloc(MIB);fill(b,1,MIB);
		for(int i=0;i<96;i++)want(write(fd,b,MIB)==MIB,"write");puts("done");}`
}

// bombLimits let a bomb meet nothing but its memory limit.
func bombLimits(name string) glovebox.Limits {
	l := glovebox.Limits{MemoryBytes: bombLimitMiB * mib, FileBytes: 128 * mib, OpenFiles: 8192, DiskBytes: 128 * mib, DiskFiles: 200_000, Pids: 64}
	if name == "pipes" {
		l.MemoryBytes = 32 * mib
	}
	return l
}

// available reads what the host could still give out.
func available(t testing.TB) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) > 1 && f[0] == "MemAvailable:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatal("no MemAvailable")
	return 0
}

// fall runs f and returns by how much the host's memory fell meanwhile.
func fall(t testing.TB, f func()) int64 {
	t.Helper()
	before, lowest := available(t), int64(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				lowest = max(lowest, before-available(t))
			case <-stop:
				return
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return lowest
}

// Each kind of memory that a guest can take is charged to its cell: the kernel
// ends it at the limit and counts that, and the host loses no more than the
// limit and 16 MiB. Without the group the same program takes it all.
//
// proves part of H-43 O-07
func TestSurviveMemory(t *testing.T) {
	control := without(t, "cgroup", "sample")
	for _, c := range memoryBombs {
		p := limited(cProgram(t, surviveC+c.source), bombLimits(c.name))
		// Others use this machine too: what repeats is the cell's doing.
		var lost int64
		for try := 0; try < 6; try++ {
			var r *glovebox.Result
			lost = fall(t, func() { r = timely(t, box(t), p) })
			if !wantEnd(t, c.name, r, "memory_limit") {
				break
			}
			if !atLeast(r.OOMKills, 1) || *r.PeakBytes > p.Limits.MemoryBytes || *r.PeakBytes < p.Limits.MemoryBytes-2*mib {
				t.Errorf("%s: oom_kills %s, peak %s of %d", c.name, number(r.OOMKills), number(r.PeakBytes), p.Limits.MemoryBytes)
			}
			if strings.Contains(r.Stdout, "done") {
				t.Errorf("%s: got all it wanted", c.name)
			}
			if lost <= p.Limits.MemoryBytes+16*mib {
				break
			}
		}
		if lost > p.Limits.MemoryBytes+16*mib {
			t.Errorf("%s: the host lost %d MiB, limit %d", c.name, lost/mib, p.Limits.MemoryBytes/mib)
		}
		r := timely(t, control, p)
		if wantEnd(t, "control, "+c.name, r, "ok 0") && (r.Stdout != "done\n" || r.OOMKills != nil) {
			t.Errorf("control, %s: said %q, oom_kills %s", c.name, r.Stdout, number(r.OOMKills))
		}
	}
}

// Without a group the memory of the processes is added up now and then, and the
// result says that this is all.
//
// proves part of O-11
func TestSurviveMemorySampled(t *testing.T) {
	p := limited(cProgram(t, surviveC+`int main(){for(int i=0;i<96;i++){char*p=malloc(MIB);fill(p,1,MIB);}for(;;)pause();}`), bombLimits(""))
	r := timely(t, without(t, "cgroup"), p)
	wantEnd(t, "sampled", r, "memory_limit")
	if r.OOMKills != nil || !strings.Contains(strings.Join(r.Warnings, "\n"), "memory: sampled") {
		t.Errorf("oom_kills %s, warnings %q", number(r.OOMKills), r.Warnings)
	}
}

// What is outside the memory limit is refused to a guest, each call with the
// errno of the wall, and the disk has its own bounds.
//
// proves part of O-16 O-07
func TestSurviveMemoryRefused(t *testing.T) {
	for _, c := range []struct{ name, call, want string }{
		{"shmget", `syscall(SYS_shmget,0,4096,01600)`, "EPERM"},
		{"msgget", `syscall(SYS_msgget,0,01600)`, "EPERM"},
		{"semget", `syscall(SYS_semget,0,1,01600)`, "EPERM"},
		{"mq_open", `syscall(SYS_mq_open,"q",O_CREAT|O_RDWR,0600,0)`, "EPERM"},
		{"larger pipe", `pipe(p)?0:fcntl(p[0],F_SETPIPE_SZ,1<<20)`, "EPERM"},
		{"huge pages", `(long)mmap(0,2*MIB,3,MAP_PRIVATE|MAP_ANON|MAP_HUGETLB,-1,0)`, "ENOMEM"},
		{"secret memory", `syscall(447,0)`, "ENOSYS"},
		{"locked memory", `mlock(b,8*MIB)`, "ENOMEM"},
		{"sparse file", `ftruncate(open("/tmp/x",O_CREAT|O_RDWR,0600),5L<<30)`, "SIGXFSZ"},
		{"disk", `({int fd=open("/dev/shm/y",O_CREAT|O_WRONLY,0600);long w;int i=0;while(i++<40&&(w=write(fd,b,MIB))>0);w;})`, "ENOSPC"},
	} {
		p := cProgram(t, surviveC+`int main(){int p[2];char*b=calloc(8,MIB);long r=`+c.call+`;return r<0?errno:0;}`)
		r := timely(t, box(t), limited(p, glovebox.Limits{DiskBytes: 16 * mib}))
		got := ended(r)
		if r.ExitCode != nil {
			got = unix.ErrnoName(unix.Errno(*r.ExitCode))
		} else if r.Signal != "" {
			got = r.Signal
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A kill by the kernel is the verdict whatever the guest makes of it, and none
// is seen where none was.
//
// proves part of X-04 X-06
func TestSurviveOOMVerdict(t *testing.T) {
	child := `int main(){if(!fork()){char*p=malloc(96*MIB);fill(p,1,96*MIB);_exit(0);}int st;wait(&st);
		printf("child %d\n",WIFSIGNALED(st)?WTERMSIG(st):0);return 0;}`
	l := glovebox.Limits{MemoryBytes: bombLimitMiB * mib}
	r := timely(t, box(t), limited(cProgram(t, surviveC+child), l))
	if wantEnd(t, "a child dies", r, "memory_limit") && (r.ExitCode == nil || *r.ExitCode != 0 || r.Stdout != "child 9\n" || !atLeast(r.OOMKills, 1)) {
		t.Errorf("a child dies: exit %v, said %q, oom_kills %s", r.ExitCode, r.Stdout, number(r.OOMKills))
	}
	r = timely(t, without(t, "cgroup", "sample"), limited(cProgram(t, surviveC+child), l))
	if wantEnd(t, "control", r, "ok 0") && r.Stdout != "child 0\n" {
		t.Errorf("control: %q", r.Stdout)
	}
	for _, c := range []struct{ name, source, want string }{
		{"exit 137", `int main(){return 137;}`, "error 137"},
		{"SIGKILL by itself", `int main(){raise(SIGKILL);}`, "error SIGKILL"},
		{"SIGKILL by its child", `int main(){if(!fork()){kill(getppid(),SIGKILL);}for(;;)pause();}`, "error SIGKILL"},
		{"a refused allocation", `int main(){struct rlimit l={8*MIB,8*MIB};setrlimit(RLIMIT_AS,&l);return malloc(96*MIB)?1:12;}`, "error 12"},
		{"almost the limit", `int main(){fill(malloc(48*MIB),1,48*MIB);return 0;}`, "ok 0"},
	} {
		r := timely(t, box(t), limited(cProgram(t, surviveC+c.source), l))
		if wantEnd(t, c.name, r, c.want) && (r.OOMKills == nil || *r.OOMKills != 0) {
			t.Errorf("%s: oom_kills %s", c.name, number(r.OOMKills))
		}
	}
}

// A program whose own files are larger than its memory ends in memory_limit,
// which is its own doing, at every limit down to the floor.
//
// proves part of X-04
func TestSurviveMemoryFloor(t *testing.T) {
	p := limited(glovebox.Program{Command: []string{"/bin/true"}}, glovebox.Limits{MemoryBytes: 8 * mib})
	wantEnd(t, "floor", anyway(t, box(t), p), "ok 0")
	p.Files = []glovebox.File{{Name: "big", Content: strings.Repeat("x", 8*mib-1)}}
	r := anyway(t, box(t), p)
	if wantEnd(t, "files above the limit", r, "memory_limit") && !atLeast(r.OOMKills, 1) {
		t.Errorf("oom_kills %s", number(r.OOMKills))
	}
	p.Limits.MemoryBytes = 128 * mib
	wantEnd(t, "control", anyway(t, box(t), p), "ok 0")
	// Where they cannot fit the disk it is known before there is a cell.
	for _, l := range []glovebox.Limits{{DiskBytes: 4 * mib}, {DiskBytes: 8*mib - 4096}} {
		p.Limits = l
		_, err := box(t).Run(t.Context(), p)
		var field *glovebox.FieldError
		if !errors.As(err, &field) || field.Field != "files" || !strings.Contains(field.Reason, "disk_bytes") {
			t.Errorf("disk of %d: %v", l.DiskBytes, err)
		}
	}
	p.Limits.DiskBytes = 8*mib + 4096
	wantEnd(t, "a disk that just fits", anyway(t, box(t), p), "ok 0")
	p = limited(glovebox.Program{Command: []string{"/bin/true"}}, glovebox.Limits{DiskFiles: 16})
	for i := range 17 {
		p.Files = append(p.Files, glovebox.File{Name: fmt.Sprint(i)})
		_, err := box(t).Run(t.Context(), p)
		var field *glovebox.FieldError
		if fits := len(p.Files) <= 16; fits != (err == nil) || !fits && (!errors.As(err, &field) || !strings.Contains(field.Reason, "disk_files")) {
			t.Errorf("%d files of 16: %v", len(p.Files), err)
		}
	}
	p.Files = p.Files[:8]
	p.Files[0].Name = "a/b/c/d/e/f/g/h/i/j"
	if _, err := box(t).Run(t.Context(), p); err == nil {
		t.Error("directories count as files too: 9 and 8 of 16 passed")
	}
}
