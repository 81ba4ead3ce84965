// One program for each language: small, and something to see.

const picture = `# All of this is standard Python. The picture comes back as a file.
import struct, sys, time, zlib

def chunk(kind, data):
    sum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", sum)

def png(width, height, pixel):
    rows = b"".join(b"\\0" + bytes(v for x in range(width) for v in pixel(x, y))
                    for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

def mandelbrot(x, y):
    c, z = complex(x / 110 - 2.05, y / 110 - 1.1), 0
    for n in range(48):
        z = z * z + c
        if abs(z) > 2:
            return n * 5, min(255, n * 9), 90 + n * 3
    return 12, 20, 40

for n in range(1, 4):
    print(f"\\033[1;36mstep {n}\\033[0m of 3", flush=True)
    time.sleep(0.3)
open("mandelbrot.png", "wb").write(png(320, 242, mandelbrot))
print("a picture is ready", file=sys.stderr)
`

export const examples = {
  python: picture,
  bash: `# A cell has no network, no home of yours, and nobody else's processes.
echo "I am $(id -un), and these are all processes:"
ps -e 2>/dev/null || ls -d /proc/[0-9]*
for i in 1 2 3; do
  printf '\\033[3%dmcolour %d\\033[0m\\n' "$i" "$i"
  sleep 0.3
done
(exec 3<>/dev/tcp/192.0.2.1/80) 2>&1 || echo "no way out" >&2
`,
  node: `// Streams, a timer, and a heap that grows a little.
const kept = [];
let n = 0;
const timer = setInterval(() => {
  kept.push(Buffer.alloc(4 << 20, n));
  console.log(\`\\x1b[32mkept \${kept.length * 4} MiB\\x1b[0m\`);
  if (++n === 5) clearInterval(timer);
}, 250);
console.error("Node.js", process.version);
`,
  c: `#include <stdio.h>

int main(void) {
	for (int row = 0; row < 12; row++) {
		for (int pad = 12 - row; pad > 0; pad--) putchar(' ');
		for (int col = 0, value = 1; col <= row; value = value * (row - col) / (col + 1), col++)
			printf("%s ", value & 1 ? "\\033[35m*\\033[0m" : ".");
		putchar('\\n');
	}
	return 0;
}
`,
  "c++": `#include <iostream>
#include <map>
#include <string>

int main() {
	std::map<std::string, int> words;
	for (std::string word; std::cin >> word;) words[word]++;
	if (words.empty()) std::cout << "Give it some words below \\"Input and arguments\\".\\n";
	for (auto &[word, n] : words) std::cout << n << "  " << word << "\\n";
}
`,
  go: `package main

import (
	"fmt"
	"sync"
	"time"
)

func main() {
	var all sync.WaitGroup
	for n := range 5 {
		all.Go(func() {
			time.Sleep(time.Duration(5-n) * 150 * time.Millisecond)
			fmt.Println("goroutine", n, "is done")
		})
	}
	all.Wait()
}
`,
  java: `import java.util.stream.*;

public class Main {
    public static void main(String[] args) {
        IntStream.rangeClosed(1, 12)
            .mapToObj(n -> "*".repeat(n))
            .forEach(System.out::println);
    }
}
`,
  rust: `fn main() {
    let mut sieve = vec![true; 200];
    for n in 2..200 {
        if sieve[n] {
            print!("{n} ");
            (n * n..200).step_by(n).for_each(|m| sieve[m] = false);
        }
    }
    println!();
}
`,
  ruby: `words = %w[cell sealed a from hello]
words.reverse.each { |w| print w, " "; $stdout.flush; sleep 0.2 }
puts
`,
  php: `<?php
foreach (range(1, 15) as $n) {
    echo $n % 15 ? ($n % 5 ? ($n % 3 ? $n : "fizz") : "buzz") : "fizzbuzz", "\\n";
}
`,
  perl: `use strict;
use warnings;
my %seen;
$seen{$_}++ for split //, "hello from a cell";
printf "%s %s\\n", $_, "#" x $seen{$_} for sort grep { /\\S/ } keys %seen;
`,
  lua: `local function hanoi(n, from, to, over)
  if n == 0 then return 0 end
  return hanoi(n - 1, from, over, to) + 1 + hanoi(n - 1, over, to, from)
end
for n = 1, 12 do print(n, hanoi(n, "a", "c", "b")) end
`,
}
