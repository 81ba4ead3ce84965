# Who the program is, where it lives, in which language and time.
import datetime
import getpass
import grp
import locale
import os
import pathlib
import platform
import pwd
import socket
import sys
import time
import zoneinfo

me = pwd.getpwuid(os.getuid())
print(me.pw_name, me.pw_dir, me.pw_shell, grp.getgrgid(os.getgid()).gr_name, getpass.getuser())
print(os.getcwd(), os.path.expanduser("~"), pathlib.Path.home())
cache = pathlib.Path.home() / ".cache" / "some" / "program"
cache.mkdir(parents=True)
(cache / "x").write_text("cached")
print((cache / "x").read_text())
print(locale.setlocale(locale.LC_ALL, ""), sys.getfilesystemencoding(), sys.stdout.encoding, locale.getpreferredencoding())
open("naïve → 漢字", "w").close()
print([n for n in os.listdir(".") if n.startswith("na")])
print("Straße".upper(), "İ".lower() == "i̇", f"{1234567.891:n}")
print(time.tzname, time.strftime("%Z %z"), time.timezone)
print(zoneinfo.ZoneInfo("Europe/Berlin").utcoffset(datetime.datetime(2024, 7, 1)))
os.environ["TZ"] = "America/New_York"
time.tzset()
print(time.tzname)
print(socket.gethostname(), platform.system(), platform.node())
print(sys.argv[1:], os.environ["GIVEN"], repr(sys.stdin.read()))
print(os.cpu_count() > 0, os.environ["OMP_NUM_THREADS"])
print(os.getpid() < 100, os.getppid(), os.getuid() == os.geteuid() != 0)
os.setuid(os.getuid())
os.setgid(os.getgid())
os.setresuid(-1, os.getuid(), -1)
print("own ids set")
