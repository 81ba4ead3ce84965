# Temporary files, the file system below /box and /tmp, masks, links, locks.
import fcntl
import glob
import io
import mmap
import os
import pathlib
import shutil
import stat
import tempfile
import zipfile

with tempfile.TemporaryDirectory() as d:
    print("folder", os.path.dirname(d), oct(os.stat(d).st_mode & 0o777))
    with tempfile.NamedTemporaryFile("w+", dir=d) as f:
        f.write("text")
        f.flush()
        print("named", open(f.name).read(), oct(os.stat(f.name).st_mode & 0o777))
    print("gone", os.listdir(d))
with tempfile.TemporaryFile() as f:
    f.write(b"x" * 100000)
    print("unnamed", f.tell(), os.fstat(f.fileno()).st_nlink)
with tempfile.SpooledTemporaryFile(max_size=10) as f:
    f.write(b"x" * 100)
    f.rollover()
    print("spooled", f.tell())
fd, name = tempfile.mkstemp(dir=".")
print("mkstemp", os.path.dirname(os.path.abspath(name)))
os.close(fd)
os.remove(name)

old = os.umask(0o077)
print("umask", oct(old))
open("private", "w").close()
os.mkdir("private.d")
os.umask(0o002)
open("group", "w").close()
os.umask(old)
print([oct(os.stat(n).st_mode & 0o777) for n in ("private", "private.d", "group")])
os.chmod("group", 0o640)
print("chmod", stat.filemode(os.stat("group").st_mode))

p = pathlib.Path("a/b/c")
p.mkdir(parents=True)
(p / "file.txt").write_text("→ text\n", encoding="utf-8")
os.symlink("file.txt", p / "link")
os.link(p / "file.txt", p / "hard")
os.utime(p / "file.txt", (1, 1_000_000_000))
print("links", (p / "link").read_text() == (p / "hard").read_text(), os.readlink(p / "link"), (p / "hard").stat().st_nlink, (p / "hard").stat().st_mtime)
shutil.copytree("a", "copy", symlinks=True)
print("tree", sorted(glob.glob("copy/**", recursive=True)))
os.rename("copy/b", "moved")
shutil.rmtree("copy")
print("move", sorted(os.listdir("moved/c")))
shutil.make_archive("archive", "gztar", "moved")
with zipfile.ZipFile("z.zip", "w", zipfile.ZIP_DEFLATED) as z:
    z.write("moved/c/file.txt", "f")
print("archives", os.path.getsize("archive.tar.gz") > 0, zipfile.ZipFile("z.zip").read("f").decode().strip())
with open("mapped", "w+b") as f:
    f.truncate(8192)
    m = mmap.mmap(f.fileno(), 8192)
    m[4096:4100] = b"page"
    m.flush()
    f.seek(4096)
    print("mmap", f.read(4))
with open("locked", "w") as f:
    fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("locks")
os.mkfifo("fifo")
print("fifo", stat.S_ISFIFO(os.stat("fifo").st_mode))
print("disk", shutil.disk_usage("/box").total >> 20, os.access("/usr", os.W_OK), os.access("/box", os.W_OK))
with io.open("big", "wb") as f:
    os.posix_fallocate(f.fileno(), 0, 1 << 20)
print("fallocate", os.path.getsize("big"))
