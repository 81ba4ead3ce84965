# Processes, pools, queues, pipes, locks and shared memory, by fork and by spawn.
import multiprocessing as mp
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory


def work(n):
    return n * n


def put(queue, n):
    queue.put(n + 1)


def answer(conn):
    conn.send({"got": conn.recv(), "pid differs": os.getpid() != os.getppid()})
    conn.close()


def count(value, lock, event):
    event.wait()
    for _ in range(1000):
        with lock:
            value.value += 1


def poke(name):
    s = shared_memory.SharedMemory(name=name)
    s.buf[1] = s.buf[0] + 1
    s.close()


def run(ctx):
    q = ctx.Queue()
    p = ctx.Process(target=put, args=(q, 41))
    p.start()
    print("queue", q.get(timeout=10))
    p.join()
    print("process", p.exitcode)
    here, there = ctx.Pipe()
    p = ctx.Process(target=answer, args=(there,))
    p.start()
    here.send([1, "two", None])
    print("pipe", here.recv())
    p.join()
    with ctx.Pool(3) as pool:
        print("pool", pool.map(work, range(6)), pool.apply_async(work, (9,)).get(10), sorted(pool.imap_unordered(work, [3, 2])))
    value, lock, event = ctx.Value("i", 0), ctx.Lock(), ctx.Event()
    ps = [ctx.Process(target=count, args=(value, lock, event)) for _ in range(3)]
    for p in ps:
        p.start()
    event.set()
    for p in ps:
        p.join()
    print("value", value.value)


def main():
    for method in ("fork", "spawn"):
        print(method)
        run(mp.get_context(method))
    s = shared_memory.SharedMemory(create=True, size=1 << 20)
    s.buf[0] = 6
    p = mp.Process(target=poke, args=(s.name,))
    p.start()
    p.join()
    print("shared memory", s.buf[1], os.path.exists("/dev/shm/" + s.name))
    s.close()
    s.unlink()
    with ProcessPoolExecutor(2) as pool:
        print("executor", list(pool.map(work, range(4))))
    p = mp.Process(target=os.abort)
    p.start()
    p.join()
    print("aborted", p.exitcode)


if __name__ == "__main__":
    main()
