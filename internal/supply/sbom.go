package supply

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Document is a list of parts as SPDX 2.3 has it, as far as it is used here; see
// https://spdx.github.io/spdx-spec/v2.3.
type Document struct {
	SPDXVersion   string         `json:"spdxVersion"`
	DataLicense   string         `json:"dataLicense"`
	SPDXID        string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	CreationInfo  Creation       `json:"creationInfo"`
	Packages      []Package      `json:"packages"`
	Relationships []Relationship `json:"relationships"`
}

// Creation says when and by what a document was made.
type Creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// Package is a program or a module.
type Package struct {
	SPDXID           string     `json:"SPDXID"`
	Name             string     `json:"name"`
	Version          string     `json:"versionInfo,omitempty"`
	DownloadLocation string     `json:"downloadLocation"`
	FilesAnalyzed    bool       `json:"filesAnalyzed"`
	LicenseConcluded string     `json:"licenseConcluded"`
	LicenseDeclared  string     `json:"licenseDeclared"`
	CopyrightText    string     `json:"copyrightText"`
	Checksums        []Checksum `json:"checksums,omitempty"`
	ExternalRefs     []Ref      `json:"externalRefs,omitempty"`
	Comment          string     `json:"comment,omitempty"`
}

// Checksum is a digest of a program's file.
type Checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

// Ref is a name that a package has elsewhere.
type Ref struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

// Relationship ties two elements.
type Relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

// Program is a built one: its file's name and bytes, and what the linker wrote
// into it.
type Program struct {
	Name  string
	Bytes []byte
	Info  *debug.BuildInfo
}

const (
	noAssertion = "NOASSERTION"
	repository  = "https://github.com/glovebox-dev/glovebox"
)

// Bill makes the document of some programs. licence gives the SPDX name of a
// module's licence. The same programs and time give the same document.
func Bill(programs []Program, licence func(module string) string, created time.Time) *Document {
	d := &Document{SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: "glovebox",
		CreationInfo: Creation{created.UTC().Format(time.RFC3339), []string{"Tool: glovebox/internal/supply"}}}
	all := sha256.New()
	for _, p := range programs {
		sum := sha256.Sum256(p.Bytes)
		all.Write(sum[:])
		own := Package{SPDXID: id("Program", p.Name), Name: p.Name, Version: cmp.Or(p.Info.Main.Version, noAssertion), DownloadLocation: noAssertion,
			LicenseConcluded: "Apache-2.0", LicenseDeclared: "Apache-2.0", CopyrightText: noAssertion,
			Checksums: []Checksum{{"SHA256", hex.EncodeToString(sum[:])}}, Comment: p.Info.Main.Path}
		d.Packages = append(d.Packages, own)
		d.relate(d.SPDXID, "DESCRIBES", own.SPDXID)
		parts := []*debug.Module{{Path: "std", Version: strings.TrimPrefix(p.Info.GoVersion, "go")}}
		for _, dep := range p.Info.Deps {
			if dep.Replace != nil {
				dep = dep.Replace
			}
			parts = append(parts, dep)
		}
		for _, m := range parts {
			d.relate(own.SPDXID, "STATIC_LINK", d.module(m, licence))
		}
	}
	d.Namespace = repository + "/sbom/" + hex.EncodeToString(all.Sum(nil))
	return d
}

func (d *Document) relate(a, how, b string) {
	d.Relationships = append(d.Relationships, Relationship{a, how, b})
}

// module adds a module, once, and returns its id.
func (d *Document) module(m *debug.Module, licence func(string) string) string {
	p := Package{SPDXID: id("Module", m.Path+"-"+m.Version), Name: m.Path, Version: m.Version, DownloadLocation: noAssertion,
		CopyrightText: noAssertion, ExternalRefs: []Ref{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}}}
	p.LicenseDeclared = cmp.Or(licence(m.Path), noAssertion)
	p.LicenseConcluded = p.LicenseDeclared
	if m.Sum != "" {
		p.Comment = "go.sum " + m.Sum
	}
	if !slices.ContainsFunc(d.Packages, func(q Package) bool { return q.SPDXID == p.SPDXID }) {
		d.Packages = append(d.Packages, p)
	}
	return p.SPDXID
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

func id(kind, name string) string {
	return "SPDXRef-" + kind + "-" + notInID.ReplaceAllString(name, "-")
}

var (
	idForm      = regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`)
	creatorForm = regexp.MustCompile(`^(Tool|Organization|Person): .+$`)
	sumForm     = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Validate holds a document against what SPDX 2.3 requires of each part of it.
func (d *Document) Validate() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	want(d.SPDXVersion == "SPDX-2.3", "spdxVersion is %q", d.SPDXVersion)
	want(d.DataLicense == "CC0-1.0", "dataLicense is %q", d.DataLicense)
	want(d.SPDXID == "SPDXRef-DOCUMENT", "SPDXID is %q", d.SPDXID)
	want(d.Name != "", "name is empty")
	want(strings.HasPrefix(d.Namespace, "https://") && !strings.Contains(d.Namespace, "#"), "documentNamespace is %q", d.Namespace)
	_, err := time.Parse("2006-01-02T15:04:05Z", d.CreationInfo.Created)
	want(err == nil, "created is %q", d.CreationInfo.Created)
	want(len(d.CreationInfo.Creators) > 0, "there is no creator")
	for _, c := range d.CreationInfo.Creators {
		want(creatorForm.MatchString(c), "creator %q", c)
	}
	known := map[string]bool{d.SPDXID: true}
	for _, p := range d.Packages {
		want(idForm.MatchString(p.SPDXID) && !known[p.SPDXID], "package id %q is none, or there twice", p.SPDXID)
		known[p.SPDXID] = true
		want(p.Name != "" && p.DownloadLocation != "" && p.CopyrightText != "", "package %q: a field is empty", p.SPDXID)
		for _, l := range []string{p.LicenseConcluded, p.LicenseDeclared} {
			for part := range strings.SplitSeq(l, " AND ") {
				want(slices.Contains(Allowed, part), "package %q: licence %q", p.SPDXID, l)
			}
		}
		for _, c := range p.Checksums {
			want(c.Algorithm == "SHA256" && sumForm.MatchString(c.Value), "package %q: checksum %v", p.SPDXID, c)
		}
		for _, r := range p.ExternalRefs {
			want(r.Category != "" && r.Type != "" && r.Locator != "", "package %q: reference %v", p.SPDXID, r)
		}
	}
	described := 0
	for _, r := range d.Relationships {
		want(known[r.Element] && known[r.Related], "%v: one of them is not here", r)
		want(slices.Contains([]string{"DESCRIBES", "STATIC_LINK"}, r.Type), "%v: unknown type", r)
		if r.Type == "DESCRIBES" {
			described++
		}
	}
	want(described > 0, "the document describes nothing")
	return errors.Join(errs...)
}
