# A figure without a screen, as PNG, SVG and PDF.
import matplotlib
import matplotlib.pyplot as plt
import numpy as np

matplotlib.use("Agg")
fig, (left, right) = plt.subplots(1, 2, figsize=(6, 3))
x = np.linspace(0, 6, 200)
left.plot(x, np.sin(x), label="sin → ∑")
left.legend()
left.set_title(r"$\int_0^x \sqrt{t}\,dt$")
right.bar(["a", "b", "c"], [3, 1, 2])
for name in ("plot.png", "plot.svg", "plot.pdf"):
    fig.savefig(name)
with open("plot.png", "rb") as f:
    head = f.read(24)
print(head[:8], int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big"))
print(open("plot.svg").readline().startswith("<?xml"), open("plot.pdf", "rb").read(5))
print("backend", matplotlib.get_backend().lower())
