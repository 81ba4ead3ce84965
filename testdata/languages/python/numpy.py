# Linear algebra with threads, random numbers, files, strings of numbers.
import numpy as np

rng = np.random.default_rng(42)
a = rng.standard_normal((300, 300))
b = a @ np.linalg.inv(a)
print("inverse", np.allclose(b, np.eye(300), atol=1e-6))
u, s, v = np.linalg.svd(a)
print("svd", np.allclose((u * s) @ v, a), s.shape)
w = np.linalg.eigvalsh(a @ a.T)
print("eigenvalues", (w > 0).all())
print("fft", np.allclose(np.fft.ifft(np.fft.fft(a[0])).real, a[0]))
np.save("a.npy", a)
print("file", np.array_equal(np.load("a.npy", mmap_mode="r"), a))
np.savez_compressed("a.npz", a=a, n=np.arange(3))
print("archive", np.load("a.npz")["n"].tolist())
print("sum", np.arange(1_000_000, dtype=np.int64).sum(), np.arange(10).reshape(2, 5).mean(axis=1).tolist())
print("sort", np.sort(np.array([3, 1, 2]))[::-1].tolist(), np.unique([1, 1, 2]).tolist())
print("text", np.loadtxt(["1 2", "3 4"]).tolist())
