package api

// Language is what is known of a language on one host.
type Language struct {
	Name  string `json:"name"`  // what a Program calls it
	Title string `json:"title"` // what people call it
	// Installed says that programs can be run; Missing is what was looked for in
	// vain when they cannot.
	Installed bool   `json:"installed"`
	Missing   string `json:"missing,omitempty"`
	// Version is the first line that the language's program says of itself, empty
	// where it was not asked.
	Version    string   `json:"version,omitempty"`
	Extensions []string `json:"extensions"`
	// File is the name of a program given as one text.
	File     string `json:"file"`
	Compiled bool   `json:"compiled"`
	// Cold says that the first use in a cell is slow, since the compiler's cache
	// was not filled; see glovebox languages --warm.
	Cold bool `json:"cold,omitempty"`
	// Limits are what holds for a program that says nothing, those of the compiler
	// in Limits.Compile.
	Limits Limits `json:"limits"`
	// Refusals say what does not work in a cell.
	Refusals []string `json:"refusals"`
}
