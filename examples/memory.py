# Takes memory until the kernel says no.
hoard = []
while True:
    hoard.append(bytearray(b"x" * (4 << 20)))
