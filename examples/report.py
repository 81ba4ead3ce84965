# Leaves a file that comes back, and a link that does not.
import os

with open("report.csv", "w") as f:
    f.write("n,square\n" + "".join(f"{n},{n * n}\n" for n in range(10)))
os.symlink("/etc/passwd", "passwd.csv")
print("wrote report.csv")
