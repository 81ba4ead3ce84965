# Makes a system call that no ordinary program makes. The cell ends on it, and
# the verdict names it.
import ctypes

print("about to trace", flush=True)
ctypes.CDLL(None).ptrace(0, 0, 0, 0)
print("still here")
