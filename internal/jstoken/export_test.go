package jstoken

// Unsure is the text of the problem that only tokens have.
const Unsure = unsure

// Held is how many brackets are held.
func (t *Tokenizer) Held() int { return len(t.stack) }
