# The smallest program: one line, exit 0.
print("hello from a cell")
