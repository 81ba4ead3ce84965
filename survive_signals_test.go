package glovebox_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// signalInit sends every signal to PID 1 and to each of its threads, in every
// way there is, has a pipe and a terminal-less descriptor send them, and ends
// with a code of its own.
const signalInit = surviveC + `
int main(){
	siginfo_t info={.si_code=SI_QUEUE};
	int fd=syscall(SYS_pidfd_open,1,0);
	want(fd>=0,"pidfd_open");
	int pipes[2]; want(!pipe(pipes),"pipe");
	for(int round=0;round<3;round++) for(int s=1;s<=64;s++){
		kill(1,s);
		syscall(SYS_rt_sigqueueinfo,1,s,&info);
		syscall(SYS_pidfd_send_signal,fd,s,0,0);
		for(int tid=1;tid<64;tid++) if(tid!=getpid()){
			syscall(SYS_tgkill,1,tid,s);
			syscall(SYS_tkill,tid,s);
			syscall(SYS_rt_tgsigqueueinfo,1,tid,s,&info);
		}
		if(!fcntl(pipes[0],F_SETOWN,1)) puts("setown");
		if(!fcntl(pipes[0],F_SETSIG,s)) puts("setsig");
		fcntl(pipes[0],F_SETFL,O_ASYNC|O_NONBLOCK);
		write(pipes[1],"x",1);
	}
	return 42;
}`

// PID 1 outlives every signal of the guest: the verdict is the guest's own
// exit. With the handlers of its runtime left in place one SIGTERM ends the
// cell.
//
// proves part of H-1 O-26
func TestSurviveSignalsToInit(t *testing.T) {
	p := cProgram(t, signalInit)
	for _, off := range [][]string{nil, {"landlock"}, {"landlock", "seccomp"}} {
		b := box(t)
		if off != nil {
			b = without(t, off...)
		}
		r := anyway(t, b, p)
		wantEnd(t, fmt.Sprintf("all signals without %v", off), r, "error 42")
		if unfiltered := len(off) == 2; strings.Contains(r.Stdout, "setsig") != unfiltered {
			t.Errorf("without %v a pipe's signals: %q", off, r.Stdout)
		}
	}
	// As root init's main thread has another uid than the guest, its sealed one
	// has not.
	term := cProgram(t, surviveC+`int main(){for(int i=0;i<200;i++){kill(1,SIGTERM);
		for(int tid=1;tid<32;tid++)syscall(SYS_tgkill,1,tid,SIGTERM);usleep(1000);}return 42;}`)
	wantEnd(t, "SIGTERM", anyway(t, box(t), term), "error 42")
	r := anyway(t, without(t, "landlock", "signals"), term)
	if r.ExitCode != nil || r.Verdict != "setup_failed" {
		t.Errorf("control: init outlived SIGTERM: %s", ended(r))
	}
}

// A guest that ends by a signal of its own is an error that names the signal,
// whichever of the sixty-four it is; those that end nobody let it exit.
//
// proves part of X-04
func TestSurviveOwnSignals(t *testing.T) {
	harmless := map[unix.Signal]bool{unix.SIGCHLD: true, unix.SIGCONT: true, unix.SIGURG: true, unix.SIGWINCH: true}
	stops := map[unix.Signal]bool{unix.SIGSTOP: true, unix.SIGTSTP: true, unix.SIGTTIN: true, unix.SIGTTOU: true}
	p := cProgram(t, surviveC+`int main(int n,char**v){syscall(SYS_kill,getpid(),atoi(v[1]));usleep(20000);return 5;}`)
	for s := unix.Signal(1); s <= 64; s++ {
		p.Args = []string{fmt.Sprint(int(s))}
		p.Limits.WallMS = 300
		want := "error " + unix.SignalName(s)
		switch {
		case harmless[s]:
			want = "error 5"
		case stops[s]:
			want = "timeout wall"
			if s != unix.SIGSTOP {
				want = "error 5" // its process group is orphaned, where these are ignored
			}
		case s == 32 || s == 33:
			want = fmt.Sprintf("error SIG%d", int(s))
		case s == 34:
			want = "error SIGRTMIN"
		case s > 34:
			want = fmt.Sprintf("error SIGRTMIN+%d", int(s)-34)
		}
		r := anyway(t, box(t), p)
		wantEnd(t, fmt.Sprintf("signal %d", int(s)), r, want)
		if s := r.Signal; s != "" && r.ExitCode != nil {
			t.Errorf("%s and exit code %d", s, *r.ExitCode)
		}
	}
}
