# Tries what a curious program tries first. Exit 0 means that all was refused.
import os
import socket
import sys


def reads(path):
    with open(path, "rb") as f:
        f.read(1)


def writes(path):
    with open(path, "wb") as f:
        f.write(b"x")


def connects(address):
    with socket.create_connection(address, timeout=2):
        pass


attempts = {
    "read /etc/shadow": lambda: reads("/etc/shadow"),
    "read the memory of PID 1": lambda: reads("/proc/1/mem"),
    "read the environment of PID 1": lambda: reads("/proc/1/environ"),
    "list /root": lambda: os.listdir("/root"),
    "write to /usr": lambda: writes("/usr/glovebox-was-here"),
    "connect to the network": lambda: connects(("192.0.2.1", 80)),
    "reach a local socket": lambda: socket.socket(socket.AF_UNIX).connect("/run/systemd/notify"),
    "leave for another root": lambda: os.chroot("/proc/1/root"),
}

through = []
for name, attempt in attempts.items():
    try:
        attempt()
        through.append(name)
    except OSError:
        pass

if through:
    sys.exit("got through: " + ", ".join(through))
print(f"{len(attempts)} attempts, all refused")
