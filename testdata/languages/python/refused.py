# What needs a socket of the family AF_UNIX fails at once, with an errno that
# says so; so does the start of a server process on one.
import asyncio
import errno
import multiprocessing as mp
import socket
import tempfile
from multiprocessing.connection import Listener


def attempt(name, f):
    try:
        print(name, "works", f())
    except (OSError, EOFError) as e:
        print(name, type(e).__name__, errno.errorcode.get(getattr(e, "errno", 0), ""))


def forkserver():
    p = mp.get_context("forkserver").Process(target=print)
    p.start()


async def unix_server():
    await asyncio.start_unix_server(lambda r, w: None, path=tempfile.mktemp())


if __name__ == "__main__":
    attempt("socket", lambda: socket.socket(socket.AF_UNIX))
    attempt("Listener", lambda: Listener(family="AF_UNIX"))
    attempt("forkserver", forkserver)
    attempt("unix server", lambda: asyncio.run(unix_server()))
    attempt("datagram pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
    attempt("internet", lambda: socket.socket(socket.AF_INET))
    a, b = socket.socketpair()
    a.send(b"pair")
    print(b.recv(10))
    attempt("Manager", mp.Manager)
