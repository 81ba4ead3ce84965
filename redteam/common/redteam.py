"""What every attack in Python imports. say prints one line of evidence: the name
of what was tried and OK, or the name of its errno."""
import errno, os, socket, sys, time

def say(name, f):
    try:
        v = f()
    except OSError as e:
        print(name, errno.errorcode.get(e.errno, e.errno), flush=True)
        return None
    print(name, "OK", flush=True)
    return v

def line(*words):
    print(*words, flush=True)

def ready():
    """Tells the runner that the attack may begin, and waits until it is over."""
    line("ready")
    sys.stdin.read()
