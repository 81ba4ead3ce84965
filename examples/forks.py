# A fork bomb: every process forks as often as it can. The kernel refuses what
# is beyond the limit, and the wall limit ends the rest.
import os
import time

print("forking", flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    try:
        os.fork()
    except OSError:
        time.sleep(0.01)
