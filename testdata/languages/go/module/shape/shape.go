package shape

// Area is width times height.
func Area(w, h int) int { return w * h }
