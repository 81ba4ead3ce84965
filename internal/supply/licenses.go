// Package supply looks at what Glovebox is made of: the modules that are linked
// into its programs and their licences, the tools that build and check it, and
// the list of parts that goes with a build.
package supply

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Allowed are the licences that a module may have, by their SPDX names.
var Allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// Read are files of licences that are none of these word by word, by their SHA-256,
// and what a person who has read them says they are: an expression of SPDX with
// Allowed ones. Another version of the file has to be read again.
var Read = map[string]string{
	// modelcontextprotocol/go-sdk: a preface (what was given under MIT and not yet
	// relicensed stays under it; documentation, which is not linked, is CC-BY-4.0),
	// then the Apache License and the MIT License whole.
	"af679003d933f045393a6a029f43da113f9ae364eac651d9ae268392985580f5": "Apache-2.0 AND MIT",
	"cc0975a5f6305145bdd7b41ce9479632fdac3870e6ac4281f28017f18c767c4e": "ISC", // github.com/coder/websocket: "and distribute" for "and/or distribute"
}

// Licences knows the texts of the allowed licences.
type Licences struct {
	apache, appendix string // as normal makes them
	other            map[string]*regexp.Regexp
}

// NewLicences takes the text of the Apache License 2.0, which every repository
// under it has.
func NewLicences(apache string) (*Licences, error) {
	body, rest, ok := strings.Cut(normal(apache), apacheEnd)
	if !ok {
		return nil, fmt.Errorf("this is not the Apache License 2.0")
	}
	l := &Licences{apache: strings.TrimSpace(body), appendix: rest, other: map[string]*regexp.Regexp{}}
	for name, text := range texts {
		pattern := regexp.QuoteMeta(normal(text))
		l.other[name] = regexp.MustCompile("^" + strings.ReplaceAll(pattern, "anyname", `[a-z0-9 ]{1,100}`) + "$")
	}
	return l, nil
}

// Name returns the SPDX name of a licence, and "" for a text that is not, word by
// word, one of those that are allowed: nothing more may stand in it than a title
// and who has the copyright. Some files have several, each for some of the module's
// files, between lines of dashes: all of them must be allowed, and the name has all.
func (l *Licences) Name(text string) string {
	if name := l.one(text); name != "" {
		return name
	}
	parts := dashes.Split(strings.ReplaceAll(text, "\r", ""), -1)
	if len(parts) < 2 {
		return ""
	}
	var names []string
	for i, part := range parts {
		if i > 0 {
			part = which.ReplaceAllString(part, "")
		}
		name := l.one(part)
		if name == "" {
			return ""
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " AND ")
}

var (
	dashes = regexp.MustCompile(`(?m)^-{10,}$`)
	which  = regexp.MustCompile(`^\n*(Files: [a-z0-9/]+/\*\n)+`)
)

// one names a text that is one licence.
func (l *Licences) one(text string) string {
	n := normal(text)
	body, rest, _ := strings.Cut(n, apacheEnd) // some leave out this line and what follows
	if strings.TrimSpace(body) == l.apache && (rest == "" || rest == l.appendix) {
		return "Apache-2.0"
	}
	for name, pattern := range l.other {
		if pattern.MatchString(n) {
			return name
		}
	}
	return ""
}

var (
	apacheEnd = "end of terms and conditions"
	title     = regexp.MustCompile(`^(the )?(mit|isc|bsd [23] clause|new bsd|apache) license( mit| isc)?$`)
	marker    = regexp.MustCompile(`^\s*([*-]|\(?[0-9a-z][.)])\s+`)
	noWord    = regexp.MustCompile(`[^a-z0-9]+`)
)

// normal is a text as words: small letters, without marks, the signs of lists,
// a title, and lines of who has the copyright.
func normal(text string) string {
	var words []string
	for line := range strings.Lines(strings.ToLower(text)) {
		line = marker.ReplaceAllString(line, "")
		plain := strings.TrimSpace(noWord.ReplaceAllString(line, " "))
		if strings.HasPrefix(strings.TrimSpace(line), "copyright") && (strings.Contains(line, "(c)") || strings.Contains(line, "©") || year.MatchString(line)) ||
			plain == "all rights reserved" || title.MatchString(plain) || plain == "" {
			continue
		}
		words = append(words, plain)
	}
	return strings.Join(words, " ")
}

var year = regexp.MustCompile(`\b(19|20)\d\d\b|\[yyyy\]|\{yyyy\}`)

const (
	bsdConditions = `Redistribution and use in source and binary forms, with or without modification, are permitted provided that the following conditions are met:
* Redistributions of source code must retain the above copyright notice, this list of conditions and the following disclaimer.
* Redistributions in binary form must reproduce the above copyright notice, this list of conditions and the following disclaimer in the documentation and/or other materials provided with the distribution.
`
	bsdName = `* Neither the name of ANYNAME nor the names of its contributors may be used to endorse or promote products derived from this software without specific prior written permission.
`
	bsdDisclaimer = `THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT ANYNAME OR CONTRIBUTORS BE LIABLE FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY, OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.`
)

// texts are the short licences; ANYNAME stands for whose it is.
var texts = map[string]string{
	"MIT": `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:
The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.
THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`,
	"ISC": `Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted, provided that the above copyright notice and this permission notice appear in all copies.
THE SOFTWARE IS PROVIDED "AS IS" AND THE AUTHOR DISCLAIMS ALL WARRANTIES WITH REGARD TO THIS SOFTWARE INCLUDING ALL IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS. IN NO EVENT SHALL THE AUTHOR BE LIABLE FOR ANY SPECIAL, DIRECT, INDIRECT, OR CONSEQUENTIAL DAMAGES OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS, WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN CONNECTION WITH THE USE OR PERFORMANCE OF THIS SOFTWARE.`,
	"BSD-2-Clause": bsdConditions + bsdDisclaimer,
	"BSD-3-Clause": bsdConditions + bsdName + bsdDisclaimer,
}
