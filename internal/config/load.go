package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/ownfile"
	"github.com/glovebox-dev/glovebox/internal/strictjson"
)

// FileVar is the variable that stands in for --config.
const FileVar = "GLOVEBOX_CONFIG"

// maxFile bounds the file of --config.
const maxFile = 256 << 10

// Sources are what values come from.
type Sources struct {
	// Flags are the values written on the command line, by the flag's name.
	Flags map[string][]string
	// Environ is the environment, as os.Environ gives it.
	Environ []string
	// File is what --config said; empty means the variable [FileVar], and without it none.
	File    string
	Machine Machine
}

// Load reads and checks everything. The error is a *[api.FieldError] whose Field is
// the place that the refused value was written at. Files must belong to root or this
// user and be writable by nobody else, and those of secrets be readable by nobody else.
func Load(s Sources) (*Config, error) {
	c := defaults(s.Machine)
	l := loader{Sources: s, env: map[string]string{}}
	for _, e := range s.Environ {
		if name, value, _ := strings.Cut(e, "="); strings.HasPrefix(name, "GLOVEBOX_") {
			l.env[name] = value
		}
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	known := map[string]bool{FileVar: true}
	for _, g := range table(c, s.Machine) {
		for _, set := range g.settings {
			known[set.variable()], known[set.variable()+"_FILE"] = true, set.isSecret()
			if err := l.fill(set); err != nil {
				return nil, err
			}
			c.settings = append(c.settings, set)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(l.file)) {
		return nil, &api.FieldError{Field: l.File + ": " + key, Reason: "there is no such setting"}
	}
	for _, name := range slices.Sorted(maps.Keys(l.env)) {
		if !known[name] && !elsewhere(name) {
			c.Unknown = append(c.Unknown, name)
		}
	}
	return c, c.check()
}

// elsewhere is true of variables that other commands and the tests have.
func elsewhere(name string) bool {
	switch name {
	case "GLOVEBOX_MCP_TOKEN", "GLOVEBOX_KEY", "GLOVEBOX_SERVER":
		return true
	}
	return strings.HasPrefix(name, "GLOVEBOX_TEST_")
}

// loader has what was written, and what of the file is not read yet.
type loader struct {
	Sources
	env  map[string]string
	file map[string]json.RawMessage
}

func (l *loader) open() error {
	field := "--config"
	if l.File == "" {
		l.File, field = l.env[FileVar], "$"+FileVar
	}
	if l.File == "" {
		return nil
	}
	text, err := ownfile.Read(l.File, ownfile.Options{MaxBytes: maxFile})
	if err != nil {
		return &api.FieldError{Field: field, Value: l.File, Reason: reason(err)}
	}
	if err := strictjson.Decode(text, &l.file, strictjson.Options{Audience: api.AudienceOperator, MaxBytes: maxFile}); err != nil {
		return &api.FieldError{Field: l.File, Reason: reason(err)}
	}
	return nil
}

// reason is what an error says without a path that stands before it already.
func reason(err error) string {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err
	}
	if field := (*api.FieldError)(nil); errors.As(err, &field) && field.Field == "body" {
		return field.Reason
	}
	return err.Error()
}

// fill gives a setting its value from the first source that has one.
func (l *loader) fill(s *setting) error {
	if s.isSecret() {
		return l.fillSecret(s)
	}
	raw, inFile := l.file[s.name]
	delete(l.file, s.name)
	if w, ok := l.Flags[s.flagName()]; ok {
		return put(s, "--"+s.flagName(), w)
	}
	if w, ok := l.env[s.variable()]; ok {
		return put(s, "$"+s.variable(), s.split(w))
	}
	if !inFile {
		s.from = "default"
		return nil
	}
	field := l.File + ": " + s.name
	w, err := s.kind.json(raw)
	if err != nil {
		return &api.FieldError{Field: field, Value: short(string(raw)), Reason: reason(err)}
	}
	return put(s, field, w)
}

// put sets a value that was written at a place.
func put(s *setting, place string, written []string) error {
	if s.name == "addr" {
		written = []string{strings.Replace(written[0], "localhost:", "127.0.0.1:", 1)}
	}
	if err := s.kind.set(written); err != nil {
		e := &api.FieldError{Field: place, Reason: err.Error()}
		if !s.isList() { // of a list the error has the element
			e.Value = short(written[0])
		}
		if s.name == "nats" && strings.Contains(written[0], "@") {
			e.Value = nil // what stands before it may be a password
		}
		return e
	}
	s.from = place
	return nil
}

func short(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

// fillSecret reads the file of a secret, or its variable.
func (l *loader) fillSecret(s *setting) error {
	key := s.name + "_file"
	raw, inFile := l.file[key]
	delete(l.file, key)
	place, path := "", ""
	value, inEnv := l.env[s.variable()]
	if w, ok := l.Flags[s.flagName()]; ok {
		place, path = "--"+s.flagName(), w[0]
	} else if w, ok := l.env[s.variable()+"_FILE"]; ok {
		place, path = "$"+s.variable()+"_FILE", w
		if inEnv {
			return &api.FieldError{Field: "$" + s.variable(), Reason: "is set, and " + place + " too: give one of them"}
		}
	} else if inEnv {
		return putSecret(s, "$"+s.variable(), value)
	} else if inFile {
		place = l.File + ": " + key
		w, err := s.kind.json(raw)
		if err != nil {
			return &api.FieldError{Field: place, Reason: err.Error()}
		}
		path = w[0]
	} else {
		s.from = "default"
		return nil
	}
	text, err := ownfile.Read(path, ownfile.Options{MaxBytes: 4 << 10, Secret: true})
	if err != nil {
		return &api.FieldError{Field: place, Value: short(path), Reason: reason(err)}
	}
	return putSecret(s, place, strings.TrimRight(string(text), "\r\n"))
}

func putSecret(s *setting, place, value string) error {
	if err := s.kind.set([]string{value}); err != nil {
		return &api.FieldError{Field: place, Reason: "what it holds " + err.Error()}
	}
	s.from = place
	return nil
}

// place is where a setting's value came from, for a sentence about it.
func (c *Config) place(name string) string {
	for _, s := range c.settings {
		if s.name == name {
			if s.from != "default" {
				return s.from
			}
			return "--" + s.flagName()
		}
	}
	return name
}

// check refuses what does not go together.
func (c *Config) check() error {
	refuse := func(name string, value any, format string, args ...any) error {
		return &api.FieldError{Field: c.place(name), Value: value, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case c.Data == "":
		return refuse("data", nil, "must be said, since this user has no home")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return refuse("tls_cert", nil, "must be given together with %s", c.place("tls_key"))
	case c.NATS == "" && (c.NATSCreds != "" || c.NATSUser != "" || c.NATSPassword != "" || c.NATSCA != "" || c.NATSInsecure || c.NATSReplicas != 1):
		return refuse("nats", nil, "must be given with what is about an external server")
	case c.NATS != "" && (c.EncryptionKey != "" || c.Fsync == FsyncAlways):
		return refuse("nats", c.NATS, "an external server has encryption and fsync in its own configuration")
	case (c.NATSUser == "") != (c.NATSPassword == ""):
		return refuse("nats_user", nil, "must be given together with %s", c.place("nats_password"))
	case c.NATSUser != "" && c.NATSCreds != "":
		return refuse("nats_creds", nil, "and %s: give one of them", c.place("nats_user"))
	case c.OperatorToken != "" && c.OperatorToken == c.AccessToken:
		return refuse("access_token", nil, "must not be the operator's token")
	case len(c.WebhookNetworks) > 0 && len(c.WebhookHosts) == 0:
		return refuse("webhook_networks", nil, "is for hosts of %s", c.place("webhook_hosts"))
	case c.InFlight > c.Slots+c.Backlog && c.said("in_flight"):
		return refuse("in_flight", c.InFlight, "must be at most %d, the slots and the backlog", c.Slots+c.Backlog)
	}
	a, _ := netip.ParseAddrPort(c.Addr)
	return c.Exposed(a)
}

// said tells whether somebody has said a setting's value.
func (c *Config) said(name string) bool {
	return slices.ContainsFunc(c.settings, func(s *setting) bool { return s.name == name && s.from != "default" })
}

// Exposed refuses to listen at an address that others can reach in the clear, or that
// no request could name. It is asked again about a listener that somebody else made.
func (c *Config) Exposed(a netip.AddrPort) error {
	if a.Addr().Unmap().IsLoopback() {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return &api.FieldError{Field: c.place("addr"), Value: a.String(), Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case !c.TLS() && len(c.TrustedProxies) == 0 && !c.InsecureHTTP:
		return refuse("is not loopback: needs --tls-cert and --tls-key, or --trusted-proxy NETWORK for a proxy that speaks TLS; --insecure-http allows it without, and keys then travel unencrypted")
	case a.Addr().IsUnspecified() && len(c.AllowHosts) == 0:
		return refuse("needs --allow-host NAME: a request has to name the service, and every address is no name")
	}
	return nil
}
