// A program of several files, found by its mod lines, and one that is embedded.
mod deep;
mod words;

fn main() {
    println!("{} {} {}", words::count("a glove in a box"), deep::below::answer(), include_str!("data.txt"));
}
