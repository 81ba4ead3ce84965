// A module with packages of its own, embedded files and build constraints.
package main

import (
	"embed"
	"fmt"
	"runtime/debug"

	"example.org/module/internal/greet"
	"example.org/module/shape"
)

//go:embed data/*.txt
var data embed.FS

//go:embed data/a.txt
var one string

func main() {
	entries, err := data.ReadDir("data")
	fmt.Println(len(entries), err, one)
	fmt.Println(greet.Hello("cell"), shape.Area(2, 3), kind())
	info, ok := debug.ReadBuildInfo()
	fmt.Println(ok, info.Main.Path, len(info.Deps))
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" || s.Key == "-trimpath" {
			fmt.Println(s.Key, s.Value)
		}
	}
}
