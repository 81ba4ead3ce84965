# Servers and clients over the cell's own loopback, and managers, which need an
# address of this kind.
import asyncio
import http.server
import socket
import threading
import urllib.error
import urllib.request
from multiprocessing.connection import Client, Listener
from multiprocessing.managers import SyncManager


async def echo():
    async def handle(reader, writer):
        writer.write((await reader.read()).upper())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "localhost", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    writer.write(b"asyncio")
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    server.close()
    return answer


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(201)
        self.end_headers()
        self.wfile.write(self.path.encode() + b" " + body)

    def log_message(self, *args):
        pass


def web():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with urllib.request.urlopen(f"http://localhost:{server.server_port}/a?b=c", data=b"body") as r:
        answer = r.status, r.read()
    server.shutdown()
    return answer


def datagrams():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as a, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as b:
        a.bind(("::1", 0))
        b.sendto(b"datagram", a.getsockname())
        return a.recvfrom(100)[0]


def connection():
    with Listener(("127.0.0.1", 0), authkey=b"k") as listener:
        t = threading.Thread(target=lambda: Client(listener.address, authkey=b"k").send({"a": [1, 2]}))
        t.start()
        with listener.accept() as c:
            answer = c.recv()
        t.join()
        return answer


def manager():
    with SyncManager(address=("127.0.0.1", 0)) as m:
        d, lock = m.dict(), m.Lock()
        with lock:
            d["shared"] = 1
        return dict(d)


if __name__ == "__main__":
    print(asyncio.run(echo()))
    print(web())
    print(datagrams())
    print(connection())
    print(manager())
    try:
        urllib.request.urlopen("http://192.0.2.1/", timeout=5)
    except urllib.error.URLError as e:
        print(e.reason)
    try:
        socket.getaddrinfo("example.org", 80)
    except socket.gaierror as e:
        print(type(e).__name__)
