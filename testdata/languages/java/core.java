// Threads, streams, records, sealed types, files, processes, text, time.
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.LocalDate;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.zip.CRC32;

public class Main {
	sealed interface Shape permits Square, Line {}

	record Square(double side) implements Shape {}

	record Line(double length) implements Shape {}

	static double area(Shape s) {
		if (s instanceof Square q) return q.side() * q.side();
		return 0;
	}

	static void threads() throws Exception {
		var total = new AtomicLong();
		var lock = new ReentrantLock();
		var counts = new ConcurrentHashMap<Integer, Long>();
		var begin = new CountDownLatch(1);
		var threads = new ArrayList<Thread>();
		long[] plain = {0};
		for (int i = 0; i < 8; i++) {
			int n = i;
			var t = new Thread(() -> {
				try {
					begin.await();
				} catch (InterruptedException e) {
					return;
				}
				for (int k = 0; k < 10000; k++) {
					total.addAndGet(n);
					counts.merge(n % 2, 1L, Long::sum);
					lock.lock();
					try {
						plain[0]++;
					} finally {
						lock.unlock();
					}
				}
			}, "worker-" + i);
			t.start();
			threads.add(t);
		}
		begin.countDown();
		for (var t : threads) t.join();
		System.out.println(total + " " + counts + " " + plain[0]);
		var pool = Executors.newFixedThreadPool(8);
		List<Future<Integer>> futures = new ArrayList<>();
		for (int i = 0; i < 20; i++) {
			int n = i;
			futures.add(pool.submit(() -> n * n));
		}
		int sum = 0;
		for (var f : futures) sum += f.get();
		pool.shutdown();
		System.out.println(sum + " " + pool.awaitTermination(5, TimeUnit.SECONDS));
		System.out.println(CompletableFuture.supplyAsync(() -> 6).thenCombine(CompletableFuture.supplyAsync(() -> 7), (a, b) -> a * b).get());
		System.out.println(IntStream.rangeClosed(1, 1000).parallel().mapToObj(BigInteger::valueOf).reduce(BigInteger.ONE, BigInteger::multiply).bitLength());
		var sleeper = new Thread(() -> {
			try {
				Thread.sleep(60_000);
			} catch (InterruptedException e) {
				System.out.println("interrupted");
			}
		});
		sleeper.start();
		sleeper.interrupt();
		sleeper.join();
		System.out.println("processors " + Runtime.getRuntime().availableProcessors() + " heap " + (Runtime.getRuntime().maxMemory() < (256 << 20)));
	}

	static void values() throws Exception {
		List<Shape> shapes = List.of(new Square(1.5), new Line(2));
		System.out.println(shapes + " " + shapes.stream().mapToDouble(Main::area).sum());
		System.out.println(new TreeMap<>(Arrays.stream("a glove in a box in a cell".split(" ")).collect(Collectors.groupingBy(w -> w, Collectors.counting()))));
		var text = """
			block
			  of text""";
		System.out.println(text.lines().count() + " " + String.format(Locale.ROOT, "%05.2f %s", Math.PI, "→ 漢字 ß".toUpperCase(Locale.ROOT)));
		System.out.println(Pattern.compile("(\\w+)=(\\w+)").matcher("k=v").replaceAll("$2=$1") + " " + new BigInteger("2").pow(100));
		System.out.println(HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest("abc".getBytes())).substring(0, 8) + " " + LocalDate.of(2024, 2, 28).plusDays(1) + " " + ZoneId.systemDefault());
		try {
			Object o = List.of(1).get(1);
			System.out.println(o);
		} catch (IndexOutOfBoundsException e) {
			System.out.println("out of bounds");
		}
		try {
			deep(0);
		} catch (StackOverflowError e) {
			System.out.println("stack overflow");
		}
		try {
			var list = new ArrayList<byte[]>();
			for (;;) list.add(new byte[8 << 20]);
		} catch (OutOfMemoryError e) {
			System.out.println("out of memory");
		}
	}

	static int deep(int n) {
		return deep(n + 1) + 1;
	}

	static void system() throws Exception {
		var p = new ProcessBuilder("sh", "-c", "tr a-z A-Z; echo err >&2; exit 3").redirectErrorStream(true).start();
		try (var in = p.getOutputStream()) {
			in.write("through ".getBytes());
		}
		System.out.println(new String(p.getInputStream().readAllBytes()).trim() + " " + p.waitFor());
		var sleep = new ProcessBuilder("sleep", "60").start();
		sleep.destroyForcibly();
		System.out.println(sleep.waitFor() + " " + ProcessHandle.current().isAlive());
		try {
			new ProcessBuilder("/no/such").start();
		} catch (IOException e) {
			System.out.println("missing");
		}
		var dir = Files.createTempDirectory("x");
		var file = dir.resolve("naïve");
		Files.writeString(file, "one\ntwo\n");
		Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r-----"));
		Files.move(file, dir.resolve("moved"), StandardCopyOption.ATOMIC_MOVE);
		Files.createSymbolicLink(dir.resolve("link"), Path.of("moved"));
		Files.copy(dir.resolve("link"), Path.of("copy"));
		try (var list = Files.list(dir); var ch = FileChannel.open(Path.of("copy"), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
			System.out.println(list.map(f -> f.getFileName().toString()).sorted().toList() + " " + Files.readAllLines(Path.of("copy")) + " " + PosixFilePermissions.toString(Files.getPosixFilePermissions(dir.resolve("moved"))));
			var mapped = ch.map(FileChannel.MapMode.READ_WRITE, 0, 3);
			mapped.put(ByteBuffer.wrap("ONE".getBytes()));
			mapped.force();
			System.out.println(ch.tryLock() != null);
		}
		var crc = new CRC32();
		crc.update(Files.readAllBytes(Path.of("copy")));
		System.out.println(Files.readString(Path.of("copy")).trim().replace('\n', ' ') + " " + Long.toHexString(crc.getValue()));
		try {
			Files.readString(Path.of("/etc/shadow"));
		} catch (NoSuchFileException e) {
			System.out.println("no such file");
		}
		var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
		System.out.println(in.readLine() + " " + in.readLine() + " " + System.getenv("GIVEN") + " " + Charset.defaultCharset());
		System.out.println(System.getProperty("user.name") + " " + System.getProperty("user.home") + " " + System.getProperty("user.dir") + " " + System.getProperty("java.io.tmpdir"));
		var timer = System.nanoTime();
		Thread.sleep(Duration.ofMillis(5).toMillis());
		System.out.println(System.nanoTime() - timer >= 5_000_000);
		Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook")));
	}

	public static void main(String[] args) throws Exception {
		System.out.println(String.join("|", args));
		threads();
		values();
		system();
		System.exit(7);
	}
}
