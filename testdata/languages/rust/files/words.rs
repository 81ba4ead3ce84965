pub fn count(s: &str) -> usize {
    s.split_whitespace().count()
}
