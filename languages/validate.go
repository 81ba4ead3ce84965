package languages

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/api"
)

// Bounds of a language's fields.
const (
	maxList = 64
	maxText = 64 << 10
	maxName = 32 // bytes, of the name and the title
)

var (
	nameRule      = regexp.MustCompile(`^[a-z][a-z0-9+#-]*$`)
	extensionRule = regexp.MustCompile(`^\.[^./\s]+$`)
	commandRule   = regexp.MustCompile(`^[^/\s]+$`)
	variableRule  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	placeRule     = regexp.MustCompile(`\{[^{}]*\}`)
)

// Which places an argv or a value may have: all of them, those that a program
// without a compiler can have, and those of what is run without one.
var (
	compilePlaces = []string{"{program}", "{entry}", "{dir}", "{sources}", "{out}", "{stem}", "{memory_bytes}", "{memory_mib}", "{heap_mib}", "{cpus}"}
	runPlaces     = without(compilePlaces, "{sources}")
	plainPlaces   = without(runPlaces, "{out}")
	toolPlaces    = []string{"{program}"}
	warmPlaces    = []string{"{program}", "{memory_bytes}", "{memory_mib}", "{heap_mib}", "{cpus}"}
)

func without(list []string, out string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == out })
}

// hidden are the folders of the host that no language may show: they are the
// kernel's, a person's, or those that the cell has of its own.
var hidden = []string{"/proc", "/sys", "/dev", "/root", "/home", "/run", "/tmp", "/box", "/prog"}

// wide are folders that may not be shown as a whole.
var wide = []string{"/", "/etc", "/var", "/opt", "/usr", "/usr/local"}

// Validate checks every field. The error is an *[api.FieldError].
func (l *Language) Validate() error {
	if l == nil {
		return bad("language", nil, "is missing")
	}
	for _, check := range []func() error{l.checkNames, l.checkPlacement, l.checkArgvs, l.checkEnvs, l.checkLimits, l.checkWords} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func bad(field string, value any, format string, args ...any) error {
	if s, ok := value.(string); ok {
		value = fmt.Sprintf("%q", s)
	}
	return &api.FieldError{Field: field, Value: value, Reason: fmt.Sprintf(format, args...)}
}

// checkNames checks what the language and its files are called.
func (l *Language) checkNames() error {
	if !nameRule.MatchString(l.Name) || len(l.Name) > maxName {
		return bad("name", l.Name, "must match %s and have at most %d bytes", nameRule, maxName)
	}
	if err := checkText("title", l.Title, maxName); err != nil {
		return err
	}
	if err := checkList("extensions", l.Extensions, func(s string) string {
		if !extensionRule.MatchString(s) {
			return "must be a dot and what follows the last dot of a file's name"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := checkList("interpreters", l.Interpreters, func(s string) string {
		if !commandRule.MatchString(s) {
			return "must be the name of a program, without its folder"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := api.CheckFileName(l.File); err != nil {
		return bad("file", l.File, "%v", err)
	}
	return nil
}

// checkPlacement checks the paths of the host.
func (l *Language) checkPlacement() error {
	if len(l.Programs) == 0 {
		return bad("programs", nil, "must have at least one path")
	}
	if err := checkList("programs", l.Programs, checkPath); err != nil {
		return err
	}
	if err := checkList("needs", l.Needs, checkShown); err != nil {
		return err
	}
	return checkList("paths", l.Paths, checkShown)
}

func checkPath(p string) string {
	switch {
	case !strings.HasPrefix(p, "/") || path.Clean(p) != p:
		return "must be an absolute path without ., .. and needless slashes"
	case !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl):
		return "must be text without control characters"
	}
	for _, h := range hidden {
		if p == h || strings.HasPrefix(p, h+"/") {
			return "lies in " + h + ", which no language may use"
		}
	}
	return ""
}

// checkShown checks a pattern of paths that a cell shows, or that must exist.
func checkShown(p string) string {
	if reason := checkPath(p); reason != "" {
		return reason
	}
	if slices.Contains(wide, strings.TrimSuffix(p, "/*")) {
		return "is too much; name what is needed of it"
	}
	first, _, _ := strings.Cut(p[1:], "/")
	if strings.ContainsAny(first, `*?[\`) {
		return "must not have a wildcard in its first part"
	}
	if _, err := path.Match(p, ""); err != nil {
		return "has a bracket that does not end"
	}
	for _, w := range wide { // whatever wildcards stand for all of it, or for any of it
		below, ok := strings.CutPrefix(p, strings.TrimSuffix(w, "/")+"/")
		if ok && strings.ContainsAny(below[:1], `*?[\`) {
			return "is too much; what lies in " + w + " must begin with its own name"
		}
	}
	return ""
}

// checkArgvs checks the commands and their places.
func (l *Language) checkArgvs() error {
	if err := checkArgv("version", l.Version, toolPlaces); err != nil {
		return err
	}
	if len(l.Compile) == 0 {
		if l.Warm != nil {
			return bad("warm", nil, "is for a language with a compiler")
		}
		return checkArgv("run", l.Run, plainPlaces)
	}
	if err := checkArgv("compile", l.Compile, compilePlaces); err != nil {
		return err
	}
	if !slices.ContainsFunc(l.Compile, func(a string) bool { return strings.Contains(a, "{out}") }) {
		return bad("compile", nil, "must name {out}, where it leaves its product")
	}
	if l.Warm != nil {
		if !variableRule.MatchString(l.Warm.Env) {
			return bad("warm.env", l.Warm.Env, "must match %s", variableRule)
		}
		if err := checkArgv("warm.fill", l.Warm.Fill, warmPlaces); err != nil {
			return err
		}
		if err := checkEnv("warm.with", l.Warm.With, warmPlaces); err != nil {
			return err
		}
	}
	return checkArgv("run", l.Run, runPlaces)
}

// checkArgv checks that a command begins with a program whose place is fixed,
// and that all of its places are known.
func checkArgv(field string, argv, places []string) error {
	if len(argv) == 0 {
		return bad(field, nil, "is missing")
	}
	if a := argv[0]; a != "{program}" && !strings.HasPrefix(a, "/") && !(slices.Contains(places, "{out}") && strings.HasPrefix(a, "{out}/")) {
		return bad(field+"[0]", a, "must be {program}, an absolute path or, for a language with a compiler, below {out}")
	}
	return checkList(field, argv, func(a string) string {
		if strings.Contains(a, "{sources}") && a != "{sources}" {
			return "must have {sources} alone in an element"
		}
		return checkPlaces(a, places)
	})
}

func checkPlaces(s string, places []string) string {
	if strings.IndexByte(s, 0) >= 0 || len(s) > maxText {
		return fmt.Sprintf("must have at most %d bytes and no NUL", maxText)
	}
	for _, p := range placeRule.FindAllString(s, -1) {
		if !slices.Contains(places, p) {
			return p + " is not known here; known are " + strings.Join(places, ", ")
		}
	}
	return ""
}

// checkEnvs checks the variables of the compiler and of the program.
func (l *Language) checkEnvs() error {
	if len(l.Compile) == 0 && len(l.CompileEnv) > 0 {
		return bad("compile_env", nil, "is for a language with a compiler")
	}
	places := runPlaces
	if len(l.Compile) == 0 {
		places = plainPlaces
	}
	if err := checkEnv("compile_env", l.CompileEnv, places); err != nil {
		return err
	}
	if err := checkEnv("env", l.Env, places); err != nil {
		return err
	}
	return checkList("reserved", l.Reserved, func(s string) string {
		if !variableRule.MatchString(s) {
			return "must match " + variableRule.String()
		}
		return ""
	})
}

func checkEnv(field string, env map[string]string, places []string) error {
	if len(env) > maxList {
		return bad(field, len(env), "must have at most %d variables", maxList)
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !variableRule.MatchString(name) {
			return bad(field, name, "a name must match %s", variableRule)
		}
		if reason := checkPlaces(env[name], places); reason != "" {
			return bad(field+"."+name, env[name], "%s", reason)
		}
	}
	return nil
}

// checkLimits checks the defaults against the floors and the widest ceilings;
// those of a Box are narrower, and it lowers these defaults to them.
func (l *Language) checkLimits() error {
	ceilings := api.MaxLimits(1<<16, 1<<50)
	for _, is := range []struct {
		field    string
		limits   api.Limits
		defaults api.Limits
	}{{"limits", l.Limits, api.DefaultLimits()}, {"compile_limits", l.CompileLimits, api.DefaultCompileLimits()}} {
		if is.limits.Compile != nil {
			return bad(is.field+".compile", nil, "is not known; compile_limits are the compiler's")
		}
		if is.field == "compile_limits" && len(l.Compile) == 0 && is.limits != (api.Limits{}) {
			return bad(is.field, nil, "is for a language with a compiler")
		}
		if _, err := is.limits.Resolve(is.defaults, ceilings); err != nil {
			var at *api.FieldError
			if errors.As(err, &at) {
				at.Field = is.field + "." + strings.TrimPrefix(at.Field, "limits.")
			}
			return err
		}
	}
	return nil
}

// checkWords checks the smoke program and the documentation.
func (l *Language) checkWords() error {
	if l.Smoke.Source == "" || len(l.Smoke.Source) > maxText {
		return bad("smoke.source", nil, "must have at least 1 byte and at most %d", maxText)
	}
	if l.Smoke.Stdout == "" || len(l.Smoke.Stdout) > maxText {
		return bad("smoke.stdout", nil, "must have at least 1 byte and at most %d", maxText)
	}
	if len(l.Refusals) > maxList {
		return bad("refusals", len(l.Refusals), "must have at most %d elements", maxList)
	}
	for i, s := range l.Refusals {
		if err := checkText(fmt.Sprintf("refusals[%d]", i), s, 1000); err != nil {
			return err
		}
	}
	return nil
}

// checkText checks a line of text that people read.
func checkText(field, s string, most int) error {
	switch {
	case s == "" || len(s) > most:
		return bad(field, nil, "must have at least 1 byte and at most %d", most)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return bad(field, s, "must be one line of text without control characters")
	}
	return nil
}

// checkList checks the elements of a list; check says what is wrong with one,
// nothing when it is right.
func checkList(field string, list []string, check func(string) string) error {
	if len(list) > maxList {
		return bad(field, len(list), "must have at most %d elements", maxList)
	}
	for i, s := range list {
		if reason := check(s); reason != "" {
			return bad(fmt.Sprintf("%s[%d]", field, i), s, "%s", reason)
		}
	}
	return nil
}
