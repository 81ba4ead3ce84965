package wire

// TagRow and TypeRow are the rows of the tables, for docs and tests.
type (
	TagRow struct {
		Tag                        int
		Name, Operands, Go, Budget string
	}
	TypeRow struct {
		Type  Type
		Name  string
		From  Side
		Max   int
		Fresh Message
	}
)

// TagRows returns the closed set of tags.
func TagRows() (all []TagRow) {
	for i, t := range tags {
		if t.Name != "" {
			all = append(all, TagRow{i, t.Name, t.Operands, t.Go, t.Budget})
		}
	}
	return all
}

// TypeRows returns the closed set of types.
func TypeRows() (all []TypeRow) {
	for _, t := range types {
		all = append(all, TypeRow{t.Type, t.Name, t.From, t.Max, t.fresh()})
	}
	return all
}

// Distinct looks for keys that occur twice by a hash that tests choose.
func Distinct(keys []string, hash func(string) uint64) (bool, error) {
	s := keySet{hash: hash}
	return s.distinct(keys)
}

// ToUnits returns a string as heap, and false if it is not WTF-8.
func ToUnits(s string) (heap []byte, wide bool, units int, ok bool) {
	h := new(heapWriter)
	n, ok := h.add(s)
	return h.b, h.wide, n, ok
}

// FromUTF16 is the conversion of the wide heap.
func FromUTF16(b []byte) string { return fromUTF16(b) }
