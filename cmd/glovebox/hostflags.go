package main

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/languages"
)

// Variables that stand in for flags which were not written.
const (
	cacheVar     = "GLOVEBOX_CACHE_DIR"
	languagesVar = "GLOVEBOX_LANGUAGE_FILES" // separated as PATH is
)

// hostFlags are those of every command that runs programs in languages.
type hostFlags struct {
	cacheDir      string
	languageFiles []string
	languages     languages.Set // read by load
}

func (h *hostFlags) add(cmd *cobra.Command) {
	h.addLanguages(cmd)
	cmd.Flags().StringVar(&h.cacheDir, "cache-dir", "", "`folder` of the compilers' caches that glovebox languages --warm fills (else $"+cacheVar+", then /var/cache/glovebox, /var/tmp/glovebox-UID for an ordinary user)")
}

// addLanguages adds the one that says what else cells show of the host.
func (h *hostFlags) addLanguages(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&h.languageFiles, "language-file", nil, "`file` of a further language, or of another in the place of one (repeatable; else $"+languagesVar+")")
}

// load reads the files of languages.
func (h *hostFlags) load() (err error) {
	if len(h.languageFiles) == 0 {
		for _, f := range filepath.SplitList(os.Getenv(languagesVar)) {
			if f != "" {
				h.languageFiles = append(h.languageFiles, f)
			}
		}
	}
	if h.languages, err = languages.WithFiles(h.languageFiles); err != nil {
		return usagef("--language-file: %s", err)
	}
	return nil
}

// options adds what the flags say to the options of a Box.
func (h *hostFlags) options(o glovebox.Options) glovebox.Options {
	o.Languages, o.CacheDir = h.languageFiles, cmp.Or(h.cacheDir, os.Getenv(cacheVar))
	return o
}
