package supply

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Vulnerability is a known one in something that Glovebox is made of.
type Vulnerability struct {
	ID, Summary string
	// Package and Fixed are where it is and the version without it, "" for none yet.
	Package, Fixed string
	// Called tells that code of Glovebox gets to it. Otherwise it is only in a module
	// or package that is there.
	Called bool
	// Elsewhere tells that it is on other systems than Linux alone.
	Elsewhere bool
	// Trace is one way from Glovebox's code to it.
	Trace string
}

// unreachable are packages that a program links and cannot get to, by program,
// with the reason. What is called in any other package counts.
var unreachable = map[string]map[string]string{
	"./cmd/glovebox-js": {"net/http": noServer, "crypto/tls": noServer, "net/textproto": noServer, "crypto/x509": noServer},
}

const noServer = "of esbuild's server for developers, which nothing starts; a worker can make no socket, before its seal or behind it"

// unreached are single vulnerabilities of packages that a program does use, by
// program and id, with the reason why it cannot come to them. Whatever else there is
// in those packages counts.
var unreached = map[string]map[string]string{
	"./cmd/glovebox": {
		"GO-2026-6603": noHTTP2, "GO-2026-6610": noHTTP2, "GO-2026-6611": noHTTP2, "GO-2026-6612": noHTTP2, "GO-2026-6617": noHTTP2,
		"GO-2026-6605": "no request of its own is a CONNECT with a body",
		"GO-2026-6607": "its servers have no keys for encrypted client hellos, without which they read none",
		"GO-2026-6608": "it parses no multipart form; its servers refuse bodies in chunks, which alone have trailers, and read nothing more of a request that they have refused",
		"GO-2026-6613": "its servers answer CONNECT with an error",
		"GO-2026-6809": "the mending is a list of authorities to distrust, which comes with Go 1.26.10; until then its clients believe them, as those of every program of an older Go do",
	},
}

const noHTTP2 = "its servers and its clients speak HTTP/1.1 alone"

// Unreachable is why a program cannot get to a vulnerability of a package that it
// links, "" if it may.
func Unreachable(program, id, pkg string) string {
	return cmp.Or(unreached[program][id], unreachable[program][pkg])
}

// osv is what is used of an entry of the database; see https://go.dev/doc/security/vuln/database.
type osv struct {
	ID       string `json:"id"`
	Summary  string `json:"summary"`
	Affected []struct {
		Specific struct {
			Imports []struct {
				GOOS []string `json:"goos"`
			} `json:"imports"`
		} `json:"ecosystem_specific"`
	} `json:"affected"`
}

// elsewhere tells whether each package that an entry names has it on other
// systems alone. An entry that names none has it everywhere.
func (o *osv) elsewhere() bool {
	seen := false
	for _, a := range o.Affected {
		if len(a.Specific.Imports) == 0 {
			return false
		}
		for _, i := range a.Specific.Imports {
			if len(i.GOOS) == 0 || slices.Contains(i.GOOS, "linux") {
				return false
			}
			seen = true
		}
	}
	return seen
}

// message is one of the objects that govulncheck -format json prints.
type message struct {
	Config *struct {
		DB           string `json:"db"`
		LastModified string `json:"db_last_modified"`
	} `json:"config"`
	OSV     *osv `json:"osv"`
	Finding *struct {
		OSV   string `json:"osv"`
		Fixed string `json:"fixed_version"`
		Trace []struct {
			Module   string `json:"module"`
			Package  string `json:"package"`
			Function string `json:"function"`
			Receiver string `json:"receiver"`
		} `json:"trace"`
	} `json:"finding"`
}

// ReadVulnerabilities reads what govulncheck -format json printed. Output without
// a beginning is an error: a scan that did not take place has found nothing.
func ReadVulnerabilities(r io.Reader) ([]Vulnerability, error) {
	entries, found := map[string]*osv{}, map[string]*Vulnerability{}
	begun := false
	for d := json.NewDecoder(r); ; {
		var m message
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("govulncheck's output: %w", err)
		}
		begun = begun || m.Config != nil
		if m.OSV != nil {
			entries[m.OSV.ID] = m.OSV
		}
		if m.Finding == nil || len(m.Finding.Trace) == 0 {
			continue
		}
		v := found[m.Finding.OSV]
		if v == nil {
			v = &Vulnerability{ID: m.Finding.OSV, Fixed: m.Finding.Fixed}
			found[v.ID] = v
		}
		at := m.Finding.Trace[0]
		v.Package = cmp.Or(at.Package, v.Package, at.Module)
		if at.Function != "" && !v.Called {
			v.Called = true
			for i, f := range slices.Backward(m.Finding.Trace) {
				v.Trace += f.Package + "." + f.Function
				if i > 0 {
					v.Trace += " > "
				}
			}
		}
	}
	if !begun {
		return nil, errors.New("govulncheck printed nothing")
	}
	var out []Vulnerability
	for id, v := range found {
		if e := entries[id]; e != nil {
			v.Summary, v.Elsewhere = e.Summary, e.elsewhere()
		}
		out = append(out, *v)
	}
	slices.SortFunc(out, func(a, b Vulnerability) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}
