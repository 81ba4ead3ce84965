# Everything of asyncio that needs no network: tasks, timeouts, queues,
# executors, subprocesses, signals.
import asyncio
import os
import signal
import sys
import time


async def square(n):
    await asyncio.sleep(0.01 * (5 - n))
    return n * n


async def producers():
    queue = asyncio.Queue(maxsize=2)

    async def produce():
        for i in range(5):
            await queue.put(i)
        await queue.put(None)

    total, task = 0, asyncio.create_task(produce())
    while (item := await queue.get()) is not None:
        total += item
    await task
    return total


async def timeouts():
    try:
        await asyncio.wait_for(asyncio.sleep(60), 0.05)
        return "no timeout"
    except asyncio.TimeoutError:
        return "timeout"


async def children():
    p = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import sys; sys.stdout.write(sys.stdin.read().upper()); sys.stderr.write('err'); sys.exit(7)",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    out, err = await p.communicate(b"text")
    shell = await asyncio.create_subprocess_shell("echo $((6 * 7))", stdout=asyncio.subprocess.PIPE)
    answer, _ = await shell.communicate()
    slow = await asyncio.create_subprocess_exec("sleep", "60")
    slow.kill()
    return out, err, p.returncode, answer, await slow.wait()


async def pipes():
    r, w = os.pipe()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(r, "rb"))
    os.write(w, b"one\ntwo\n")
    os.close(w)
    return [line async for line in reader]


async def signals():
    got = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, got.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(got.wait(), 5)
    return "signal"


async def main():
    print("gather", await asyncio.gather(*(square(n) for n in range(5))))
    done, pending = await asyncio.wait([asyncio.create_task(square(n)) for n in range(3)])
    print("wait", sorted(t.result() for t in done), len(pending))
    print("as_completed", [await f for f in asyncio.as_completed([square(4), square(0)])])
    print("queue", await producers())
    print("wait_for", await timeouts())
    loop = asyncio.get_running_loop()
    begin = time.monotonic()
    await asyncio.gather(*(loop.run_in_executor(None, time.sleep, 0.2) for _ in range(4)))
    print("run_in_executor", time.monotonic() - begin < 0.7)
    print("to_thread", await asyncio.to_thread(sum, range(100)))
    print("subprocess", await children())
    print("pipe", await pipes())
    print(await signals())
    task = asyncio.create_task(asyncio.sleep(60))
    await asyncio.sleep(0)
    task.cancel()
    print("gather of a cancelled task", await asyncio.gather(task, return_exceptions=True))
    async with asyncio.Lock(), asyncio.Semaphore(2):
        print("locks")


asyncio.run(main())
