// Bundle makes web/dist of web/bundled and of the modules that npm has put into a
// folder: the editor and the curves, and the licences of what is in them.
//
//	go run ./web/bundle MODULES
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./web/bundle MODULES")
		os.Exit(2)
	}
	if err := bundle(os.Args[1], "web/dist"); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func bundle(modules, out string) error {
	modules, err := filepath.Abs(modules)
	if err != nil {
		return err
	}
	r := api.Build(api.BuildOptions{
		EntryPoints: []string{"web/bundled/editor.js", "web/bundled/curves.js"}, Outdir: out, NodePaths: []string{modules},
		Bundle: true, Write: true, Metafile: true, Format: api.FormatESModule, Target: api.ES2022, Charset: api.CharsetUTF8, LogLevel: api.LogLevelWarning,
		MinifySyntax: true, MinifyWhitespace: true, MinifyIdentifiers: true, LegalComments: api.LegalCommentsInline, Loader: map[string]api.Loader{".css": api.LoaderText},
	})
	if len(r.Errors) > 0 {
		return fmt.Errorf("%d errors", len(r.Errors))
	}
	text, err := licences(r.Metafile, modules)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "licenses.txt"), text, 0o644)
}

// licences are those of all packages that anything was taken of.
func licences(metafile, modules string) ([]byte, error) {
	var meta struct{ Inputs map[string]struct{} }
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return nil, err
	}
	var names []string
	for input := range meta.Inputs {
		_, below, ok := strings.Cut(input, "node_modules/")
		if !ok {
			continue
		}
		parts := strings.SplitN(below, "/", 3)
		name := parts[0]
		if strings.HasPrefix(name, "@") {
			name = parts[0] + "/" + parts[1]
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	text := []byte("The page's editor and curves are made of these packages.\n")
	for _, name := range names {
		var info struct{ Version, License string }
		data, err := os.ReadFile(filepath.Join(modules, name, "package.json"))
		if err == nil {
			err = json.Unmarshal(data, &info)
		}
		if err != nil {
			return nil, err
		}
		license, err := os.ReadFile(filepath.Join(modules, name, "LICENSE"))
		if err != nil {
			return nil, err
		}
		text = fmt.Appendf(text, "\n%s\n%s %s (%s)\n\n%s", strings.Repeat("=", 72), name, info.Version, info.License, license)
	}
	return text, nil
}
