// Threads, channels, atomics, collections, traits, text, files, processes, a
// panic that is caught.
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Square(f64),
    Line { length: f64 },
}

trait Area {
    fn area(&self) -> f64;
}

impl Area for Shape {
    fn area(&self) -> f64 {
        match self {
            Shape::Square(side) => side * side,
            Shape::Line { length } if *length > 0.0 => 0.0,
            Shape::Line { .. } => f64::NAN,
        }
    }
}

struct Words<'a>(&'a str);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "<{}>", self.0.split_whitespace().rev().collect::<Vec<_>>().join("|"))
    }
}

fn threads() {
    let total = Arc::new(Mutex::new(0u64));
    let steps = AtomicUsize::new(0);
    thread::scope(|s| {
        for i in 0..8 {
            let (total, steps) = (Arc::clone(&total), &steps);
            s.spawn(move || {
                for _ in 0..1000 {
                    *total.lock().unwrap() += i;
                    steps.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    println!("total {} steps {}", total.lock().unwrap(), steps.load(Ordering::SeqCst));

    let (tx, rx) = mpsc::channel();
    for i in 0..4 {
        let tx = tx.clone();
        thread::spawn(move || tx.send(i * i).unwrap());
    }
    drop(tx);
    let mut got: Vec<i32> = rx.iter().collect();
    got.sort();
    println!("channel {:?}", got);

    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let other = Arc::clone(&pair);
    thread::spawn(move || {
        *other.0.lock().unwrap() = true;
        other.1.notify_one();
    });
    let ready = pair.1.wait_while(pair.0.lock().unwrap(), |r| !*r).unwrap();
    println!("condition {}", *ready);

    let barrier = Arc::new(Barrier::new(4));
    let leaders: usize = (0..4)
        .map(|_| {
            let b = Arc::clone(&barrier);
            thread::spawn(move || b.wait().is_leader() as usize)
        })
        .collect::<Vec<_>>()
        .into_iter()
        .map(|t| t.join().unwrap())
        .sum();
    println!("leaders {}", leaders);
    let lock = RwLock::new(1);
    let (a, b) = (lock.read().unwrap(), lock.read().unwrap());
    println!("rwlock {}", *a + *b + lock.try_write().is_err() as i32);
    let begin = Instant::now();
    thread::sleep(Duration::from_millis(20));
    println!("slept {}", begin.elapsed() >= Duration::from_millis(20));
    std::panic::set_hook(Box::new(|_| {}));
    let panicked = thread::spawn(|| {
        let list = vec![1];
        list[std::env::args().count() + 5]
    });
    println!("panic {}", panicked.join().is_err());
    println!("parallelism {}", thread::available_parallelism().unwrap().get() > 0);
}

fn collections() {
    let mut count: HashMap<&str, usize> = HashMap::new();
    for w in "a glove in a box in a cell".split(' ') {
        *count.entry(w).or_default() += 1;
    }
    let sorted: BTreeMap<_, _> = count.into_iter().collect();
    println!("{:?}", sorted);
    let mut heap: BinaryHeap<_> = [3, 1, 4, 1, 5].into_iter().collect();
    let set: HashSet<_> = heap.iter().copied().collect();
    let queue: VecDeque<_> = (0..3).collect();
    println!("{:?} {} {:?}", heap.pop(), set.len(), queue.iter().rev().collect::<Vec<_>>());
    let shapes = vec![Shape::Square(1.5), Shape::Line { length: 2.0 }];
    println!("{:?} {}", shapes, shapes.iter().map(|s| s.area()).sum::<f64>());
    println!("{} {} {:>6.2} {:#x}", Words("one two three"), "ßé".to_uppercase(), std::f64::consts::PI, 255u8);
    println!("{:?} {:?}", "12x".parse::<i32>().is_err(), "→ 漢字".chars().rev().collect::<String>());
    println!("{:?} {:?}", 250u8.checked_add(10), 250u8.wrapping_add(10));
}

fn system() -> io::Result<()> {
    let out = Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]).output()?;
    println!("{:?} {:?} {:?}", String::from_utf8_lossy(&out.stdout), out.stderr.len(), out.status.code());
    let mut cat = Command::new("tr").args(["a-z", "A-Z"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    cat.stdin.take().unwrap().write_all(b"through")?;
    let mut text = String::new();
    cat.stdout.take().unwrap().read_to_string(&mut text)?;
    println!("{} {}", text, cat.wait()?.success());
    let mut sleep = Command::new("sleep").arg("60").spawn()?;
    sleep.kill()?;
    println!("{:?} {:?}", sleep.wait()?.code(), Command::new("/no/such").spawn().map_err(|e| e.kind()).err());
    fs::create_dir_all("d/e")?;
    fs::write("d/e/naïve", "one\ntwo\n")?;
    fs::rename("d/e/naïve", "d/moved")?;
    std::os::unix::fs::symlink("moved", "d/link")?;
    let lines: Vec<_> = io::BufReader::new(fs::File::open("d/link")?).lines().collect::<Result<_, _>>()?;
    println!("{:?} {} {:?}", lines, fs::read_dir("d")?.count(), fs::read("/etc/shadow").map_err(|e| e.kind()).err());
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    println!("{:?} {:?} {:?}", line, std::env::args().skip(1).collect::<Vec<_>>(), std::env::var("GIVEN"));
    println!("{:?} {:?}", std::env::current_dir()?, std::env::temp_dir());
    Ok(())
}

fn main() {
    threads();
    collections();
    system().unwrap();
    std::process::exit(7);
}
