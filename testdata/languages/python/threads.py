# Threads, their locks, local values and executors, and signals beside them.
import queue
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

total, lock = 0, threading.Lock()


def add():
    global total
    for _ in range(10000):
        with lock:
            total += 1


threads = [threading.Thread(target=add) for _ in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("total", total)

with ThreadPoolExecutor(8) as pool:
    print("map", list(pool.map(pow, range(5), [2] * 5)))
    print("futures", sorted(f.result() for f in as_completed([pool.submit(len, "x" * n) for n in range(4)])))

q, seen = queue.Queue(), []


def consume():
    while (item := q.get()) is not None:
        seen.append(item)
        q.task_done()


t = threading.Thread(target=consume)
t.start()
for i in range(5):
    q.put(i)
q.join()
q.put(None)
t.join()
print("queue", seen)

local = threading.local()
local.x = "main"
threading.Thread(target=lambda: print("local", getattr(local, "x", "none"))).start()

barrier, order = threading.Barrier(3), []


def wait():
    order.append(barrier.wait(10))


ts = [threading.Thread(target=wait) for _ in range(3)]
for t in ts:
    t.start()
for t in ts:
    t.join()
print("barrier", sorted(order))

cond, ready = threading.Condition(), False


def notify():
    global ready
    with cond:
        ready = True
        cond.notify_all()


threading.Timer(0.05, notify).start()
with cond:
    print("condition", cond.wait_for(lambda: ready, 10))

fired = []
signal.signal(signal.SIGALRM, lambda *_: fired.append("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.05)
time.sleep(0.2)
print(fired, threading.active_count())
