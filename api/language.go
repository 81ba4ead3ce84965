package api

// Language is what is known of a language on one host.
type Language struct {
	Name  string `json:"name" for:"library"`  // what a Program calls it
	Title string `json:"title" for:"library"` // what people call it
	// Installed says that programs can be run; Missing is what was looked for in
	// vain when they cannot.
	Installed bool   `json:"installed" for:"library"`
	Missing   string `json:"missing,omitempty" for:"library"`
	// Version is the first line that the language's program says of itself, empty
	// where it was not asked.
	Version    string   `json:"version,omitempty" for:"library"`
	Extensions []string `json:"extensions" for:"library"`
	// File is the name of a program given as one text.
	File     string `json:"file" for:"library"`
	Compiled bool   `json:"compiled" for:"library"`
	// Cold says that the first use in a cell is slow, since the compiler's cache
	// was not filled; see glovebox languages --warm.
	Cold bool `json:"cold,omitempty" for:"library"`
	// Limits are what holds for a program that says nothing, those of the compiler
	// in Limits.Compile.
	Limits Limits `json:"limits" for:"library"`
	// Refusals say what does not work in a cell.
	Refusals []string `json:"refusals" for:"library"`
}
