// Package journal is the record that a session is rebuilt from: what was run,
// which tools were called with what, and what they answered. It is a chain of
// records, each authenticated together with all before it, so that whoever keeps
// the bytes can neither change nor reorder nor splice them; and a head, kept
// elsewhere, so that he cannot go back either.
//
// # Form
//
// A journal is the eight bytes of Magic, then frames:
//
//	length  4 bytes, little-endian: of type, meta's length, meta and blob
//	check   8 bytes, the beginning of HMAC(key of lengths, chain ‖ length)
//	type    1 byte
//	meta's length  4 bytes, little-endian
//	meta    JSON, read by the one strict decoder
//	blob    a source text or the bytes of a value
//	mac     32 bytes, HMAC(key of records, chain ‖ all of the frame before it)
//
// chain is the mac of the frame before, of the first one zeros. Keys are derived
// per purpose and owner; nothing is parsed before its mac holds, but the id of
// the key, which is the first frame's alone. In a sealed journal what follows the
// first frame's length and check is encrypted: 12 bytes of nonce, then AES-256-GCM
// of type, meta's length, meta and blob.
//
// A frame that the bytes end within is torn: the writer ended while it wrote. It
// was never relied on, and is dropped. Anything else that does not hold refuses
// the journal.
package journal
