# Every way in which Python starts a process.
import os
import resource
import shutil
import signal
import subprocess
import sys

print("run", subprocess.run(["echo", "a b"], capture_output=True, text=True).stdout.strip())
print("shell", subprocess.check_output("printf %s \"$HOME\" | tr a-z A-Z", shell=True, text=True))
print("input", subprocess.run([sys.executable, "-c", "print(input()[::-1])"], input="abc\n", text=True, capture_output=True).stdout.strip())
print("code", subprocess.run(["false"]).returncode, subprocess.run("kill -TERM $$", shell=True).returncode)
try:
    subprocess.run(["sleep", "60"], timeout=0.1)
except subprocess.TimeoutExpired:
    print("timeout")
try:
    subprocess.run(["/no/such/program"])
except FileNotFoundError as e:
    print("missing", e.errno)
try:
    subprocess.run(["false"], check=True)
except subprocess.CalledProcessError as e:
    print("check", e.returncode)
a = subprocess.Popen(["seq", "5"], stdout=subprocess.PIPE)
b = subprocess.Popen(["sort", "-rn"], stdin=a.stdout, stdout=subprocess.PIPE, text=True)
a.stdout.close()
print("pipeline", b.communicate()[0].split(), a.wait())
print("options", subprocess.run(["sh", "-c", "pwd; echo $X; umask; echo $#"], cwd="/tmp", env={"X": "1"}, start_new_session=True, umask=0o27,
                                capture_output=True, text=True).stdout.split())
r, w = os.pipe()
print("descriptors", subprocess.run(["sh", "-c", f"echo kept >&{w}; ls /proc/self/fd | wc -l"], pass_fds=[w], capture_output=True, text=True).stdout.strip(), os.read(r, 10))
p = subprocess.Popen(["sleep", "60"], start_new_session=True)
os.killpg(p.pid, signal.SIGKILL)
print("group", p.wait())
print("preexec", subprocess.run(["sh", "-c", "ulimit -n"], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50)),
                                capture_output=True, text=True).stdout.strip())
print("popen", os.popen("echo popen").read().strip(), os.system("exit 3") >> 8)
pid = os.fork()
if pid == 0:
    os.execvp("true", ["true"])
print("fork", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
pid = os.posix_spawn("/bin/sh", ["sh", "-c", "id -u > spawned; exit 4"], os.environ, resetids=True, setsigdef=[signal.SIGPIPE], setpgroup=0)
print("posix_spawn", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), open("spawned").read().strip() == str(os.getuid()))
p = subprocess.Popen(["sleep", "60"])
signal.pidfd_send_signal(os.pidfd_open(p.pid), signal.SIGTERM)
print("pidfd", p.wait())
print("which", shutil.which("sh"))
