package config

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Flag is what a command needs to offer a setting: the flag's name, its help with the
// value's name in backquotes, its default as text, and of what kind it is.
type Flag struct {
	Name, Help, Default string
	Bool, List          bool
	Words               []string // the values, where there are few
}

// FlagGroup is a titled part of the flags.
type FlagGroup struct {
	Title string
	Flags []Flag
}

// Flags are those of all settings, in the order of the documentation.
func Flags(m Machine) []FlagGroup {
	var out []FlagGroup
	for _, g := range table(defaults(m), m) {
		fg := FlagGroup{Title: g.title}
		for _, s := range g.settings {
			f := Flag{Name: s.flagName(), Help: s.help, List: s.isList()}
			_, f.Bool = s.kind.(truth)
			if w, ok := s.kind.(word); ok {
				f.Words = w.words
			}
			if !f.Bool && !f.List && !s.isSecret() && s.name != "data" {
				f.Default = s.kind.String()
			}
			fg.Flags = append(fg.Flags, f)
		}
		out = append(out, fg)
	}
	return out
}

// Print writes what holds and where each value came from, one setting a line. No
// secret is in it.
func (c *Config) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SETTING\tVALUE\tFROM")
	for _, s := range c.settings {
		value := s.kind.String()
		switch {
		case value == "":
			value = "-"
		case s.name == "quotas" && value == Auto && c.QuotasInForce():
			value = "auto (in force)"
		case s.name == "quotas" && value == Auto:
			value = "auto (not in force)"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", s.name, value, s.from)
	}
	return t.Flush()
}

// Markdown is the table of settings for the documentation. What depends on the
// machine is said in words.
func Markdown() string {
	m := Machine{Cores: 1, Memory: 1 << 40, Data: "/var/lib/glovebox"}
	var b strings.Builder
	for _, g := range table(defaults(m), m) {
		fmt.Fprintf(&b, "### %s\n| flag | variable | file | meaning | values | default |\n| --- | --- | --- | --- | --- | --- |\n", g.title)
		for _, s := range g.settings {
			variable, name, form, def := "`"+s.variable()+"`", s.name, s.kind.form(), s.kind.String()
			switch {
			case s.isSecret():
				variable, name = variable+" or `"+s.variable()+"_FILE`", name+"_file"
			case s.name == "slots":
				def = "2 × processors"
			case s.name == "memory":
				form, def = "from 64MiB to the machine's", "9/10 of the machine's"
			case s.name == "data":
				def = "`/var/lib/glovebox`, `~/.local/state/glovebox` for an ordinary user"
			case s.name == "max_limits":
				def = strings.ReplaceAll(strings.ReplaceAll(def, ",", ", "), "cpu=100,", "cpu=100 × processors,")
			}
			if def == "" {
				def = "-"
			}
			fmt.Fprintf(&b, "| `--%s` | %s | `%s` | %s | %s | %s |\n", s.flagName(), variable, name, meaning(s.help), form, def)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// meaning is a flag's help as a cell of the table.
func meaning(help string) string {
	help, _, _ = strings.Cut(help, " (")
	return strings.NewReplacer("`", "", "--", "\\-\\-").Replace(help)
}

// IsSecret tells whether a variable of the environment holds a secret.
func IsSecret(variable string) bool {
	m := Machine{Cores: 1}
	for _, g := range table(defaults(m), m) {
		for _, s := range g.settings {
			if s.isSecret() && s.variable() == variable {
				return true
			}
		}
	}
	return false
}
