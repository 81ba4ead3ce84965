package config_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/config"
	"github.com/glovebox-dev/glovebox/internal/credential"
)

var machine = config.Machine{Cores: 4, Memory: 16 << 30, Data: "/var/lib/glovebox"}

// file writes a file that is good as one of the configuration.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "glovebox.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, s config.Sources) *config.Config {
	t.Helper()
	s.Machine = machine
	c, err := config.Load(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func print(t *testing.T, c *config.Config) string {
	t.Helper()
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// row is what Print says of a setting: its value and where it came from.
func row(t *testing.T, c *config.Config, name string) string {
	t.Helper()
	for line := range strings.Lines(print(t, c)) {
		if f := strings.Fields(line); f[0] == name {
			return strings.Join(f[1:], " ")
		}
	}
	t.Fatalf("no setting %q in:\n%s", name, print(t, c))
	return ""
}

func TestDefaults(t *testing.T) {
	c := load(t, config.Sources{})
	for what, got := range map[string][2]any{
		"addr": {c.Addr, "127.0.0.1:8080"}, "slots": {c.Slots, 8}, "backlog": {c.Backlog, 64}, "in flight": {c.InFlight, 8}, "sockets": {c.Sockets, 10},
		"runs": {c.QuotaRuns, 20}, "runs of a key": {c.QuotaKeyRuns, 200}, "keys": {c.QuotaKeys, 5}, "key's life": {c.KeyTTL, 90 * 24 * time.Hour},
		"retention": {c.Retention, 24 * time.Hour}, "store": {c.MaxStore, int64(10 << 30)}, "body": {c.MaxBody, int64(8 << 20)},
		"wall": {c.MaxLimits.WallMS, int64(60_000)}, "memory": {c.MaxLimits.MemoryBytes, int64(1 << 30)}, "cpu": {c.MaxLimits.CPUPercent, int64(400)},
		"quotas": {c.QuotasInForce(), false}, "sandbox": {c.Sandbox, "require"}, "webhooks": {len(c.WebhookHosts), 0},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %v, not %v", what, got[0], got[1])
		}
	}
	if got := row(t, c, "slots"); got != "8 default" {
		t.Errorf("slots: %s", got)
	}
}

// Flags win over the environment, that over the file, that over the defaults, and
// what is printed says where each value came from.
func TestSources(t *testing.T) {
	path := file(t, `{"slots": 3, "backlog": 30, "in_flight": 3, "max_body": "1MiB", "max_store": 104857600, "retention": "2d", "public": false,
		"allow_hosts": ["a.example", "b.example:8443"], "max_limits": {"wall_ms": 2000, "stdout_bytes": 1024, "stderr_bytes": 1024}}`)
	c := load(t, config.Sources{
		File:    path,
		Environ: []string{"GLOVEBOX_SLOTS=5", "GLOVEBOX_BACKLOG=50", "GLOVEBOX_LANGUAGE_FILES=/a.json:/b.json", "GLOVEBOX_TRUSTED_PROXIES=10.0.0.0/8, 192.0.2.1", "PATH=/bin", "GLOVEBOX_SLOT=1", "GLOVEBOX_KEY=x"},
		Flags:   map[string][]string{"slots": {"7"}, "max": {"memory=64MiB"}},
	})
	for name, want := range map[string]string{
		"slots": "7 --slots", "backlog": "50 $GLOVEBOX_BACKLOG", "in_flight": "3 " + path + ": in_flight", "sockets": "10 default",
		"max_body": "1MiB " + path + ": max_body", "max_store": "100MiB " + path + ": max_store", "retention": "2d " + path + ": retention",
		"public": "false " + path + ": public", "allow_hosts": "a.example,b.example:8443 " + path + ": allow_hosts",
		"language_files": "/a.json,/b.json $GLOVEBOX_LANGUAGE_FILES", "trusted_proxies": "10.0.0.0/8,192.0.2.1/32 $GLOVEBOX_TRUSTED_PROXIES",
		"quotas": "auto (not in force) default", "policy": "- default", "operator_token": "not set default",
	} {
		if got := row(t, c, name); got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
	// A list, and each limit, is taken as a whole from one source.
	if c.MaxLimits.MemoryBytes != 64<<20 || c.MaxLimits.WallMS != 60_000 {
		t.Errorf("ceilings: %+v", c.MaxLimits)
	}
	if want := []string{"GLOVEBOX_SLOT"}; !reflect.DeepEqual(c.Unknown, want) {
		t.Errorf("unknown variables: %q, not %q", c.Unknown, want)
	}
	c = load(t, config.Sources{Environ: []string{config.FileVar + "=" + path}})
	if c.Slots != 3 || c.MaxLimits.WallMS != 2000 || c.MaxLimits.StdoutBytes != 1024 || c.MaxLimits.StderrBytes != 1024 || c.MaxLimits.MemoryBytes != 1<<30 {
		t.Errorf("by $%s: slots %d, ceilings %+v", config.FileVar, c.Slots, c.MaxLimits)
	}
}

// Each refusal says where the value was written, the value, and what it must be. It is
// long because of its table.
func TestRefused(t *testing.T) {
	flag := func(name, value string) config.Sources {
		return config.Sources{Flags: map[string][]string{name: {value}}}
	}
	env := func(list ...string) config.Sources { return config.Sources{Environ: list} }
	text := func(json string) config.Sources { return config.Sources{File: file(t, json)} }
	for want, s := range map[string]config.Sources{
		"--slots: 0: must be from 1 to 10000":                                   flag("slots", "0"),
		"--slots: 10001: must be from 1 to 10000":                               flag("slots", "10001"),
		"--slots: many: must be a whole number, from 1 to 10000":                flag("slots", "many"),
		"--slots: -1: must be from 1 to 10000":                                  flag("slots", "-1"),
		"$GLOVEBOX_MAX_STORE: 1MiB: must be from 64MiB to ":                     env("GLOVEBOX_MAX_STORE=1MiB"),
		"$GLOVEBOX_MAX_STORE: lots: must be a size such as 64MiB":               env("GLOVEBOX_MAX_STORE=lots"),
		"--retention: 0: must be from 1m to 365d":                               flag("retention", "0"),
		"--key-ttl: 99999999999999999d: must be from 1m to 3650d":               flag("key-ttl", "99999999999999999d"),
		"--key-ttl: xd: must be a duration":                                     flag("key-ttl", "xd"),
		"--quotas: maybe: must be auto or on or off":                            flag("quotas", "maybe"),
		"$GLOVEBOX_PUBLIC: yes: must be true or false":                          env("GLOVEBOX_PUBLIC=yes"),
		`--addr: :8080: must be ADDRESS:PORT`:                                   flag("addr", ":8080"),
		`--addr: example.com:80: must be ADDRESS:PORT`:                          flag("addr", "example.com:80"),
		`--addr: 127.0.0.1:65536: must be`:                                      flag("addr", "127.0.0.1:65536"),
		`--addr: 192.0.2.1:80: is not loopback: needs --tls-cert`:               flag("addr", "192.0.2.1:80"),
		`--trusted-proxy: "10.0.0.1/8" has bits behind its length; did you me`:  flag("trusted-proxy", "10.0.0.1/8"),
		`--trusted-proxy: "0.0.0.0/0" is everybody`:                             flag("trusted-proxy", "0.0.0.0/0"),
		`--trusted-proxy: "::ffff:10.0.0.0/104" must be a network`:              flag("trusted-proxy", "::ffff:10.0.0.0/104"),
		`--allow-host: "*.example.com" must be NAME`:                            flag("allow-host", "*.example.com"),
		`--allow-host: "Example.com" must be NAME`:                              flag("allow-host", "Example.com"),
		`--allow-host: "example.com." must be NAME`:                             flag("allow-host", "example.com."),
		`--allow-origin: "*" must be an origin`:                                 flag("allow-origin", "*"),
		`--allow-origin: "null" must be an origin`:                              flag("allow-origin", "null"),
		`--allow-origin: "https://a.example/" must be an origin`:                flag("allow-origin", "https://a.example/"),
		`--max: "memory=1KiB" must be a size such as 64MiB, from 8MiB to 16GiB`: flag("max", "memory=1KiB"),
		`--max: "memory=17GiB" must be a size`:                                  flag("max", "memory=17GiB"),
		`--max: "memory=0" must be a size`:                                      flag("max", "memory=0"),
		`--max: "swap=1" must be NAME=VALUE`:                                    flag("max", "swap=1"),
		`--data: data: must be an absolute path`:                                flag("data", "data"),
		`--data: /srv/../etc: must be an absolute path`:                         flag("data", "/srv/../etc"),
		`--nats: must have no user or password in it`:                           flag("nats", "nats://u:p@example.com"),
		`--nats: http://example.com: must be nats://`:                           flag("nats", "http://example.com"),
		`--nats: must be given with what is about an external server`:           flag("nats-creds", "/x"),
		`--tls-cert: must be given together with --tls-key`:                     flag("tls-cert", "/x"),
		`--webhook-network: is for hosts of --webhook-host`:                     flag("webhook-network", "10.0.0.0/8"),
		`--in-flight: 1000: must be at most 72, the slots and the backlog`:      flag("in-flight", "1000"),
		"glovebox.json: slots: 3.5: must be a whole number":                     text(`{"slots": 3.5}`),
		`glovebox.json: slots: "3": must be a number`:                           text(`{"slots": "3"}`),
		"glovebox.json: slots: null: must be":                                   text(`{"slots": null}`),
		`glovebox.json: public: "true": must be true or false`:                  text(`{"public": "true"}`),
		"glovebox.json: retention: 60: must be a duration":                      text(`{"retention": 60}`),
		"glovebox.json: allow_hosts: ":                                          text(`{"allow_hosts": "a.example"}`),
		"glovebox.json: slot: there is no such setting":                         text(`{"slot": 3}`),
		"glovebox.json: Slots: there is no such setting":                        text(`{"Slots": 3}`),
		"glovebox.json: operator_token: there is no such setting":               text(`{"operator_token": "gbp_"}`),
		"glovebox.json: slots: ":                                                text(`{"slots": 1, "slots": 2}`),
		"glovebox.json: max_limits: ":                                           text(`{"max_limits": {"wall_ms": 2000, "walls": 1}}`),
		"glovebox.json: max_limits: \"cpu-time=1ms\" must be":                   text(`{"max_limits": {"cpu_ms": 1}}`),
		"--config: /nowhere.json: no such file or directory":                    {File: "/nowhere.json"},
		"$GLOVEBOX_CONFIG: /nowhere.json: no such file":                         env("GLOVEBOX_CONFIG=/nowhere.json"),
	} {
		s.Machine = machine
		_, err := config.Load(s)
		if field := (*api.FieldError)(nil); !errors.As(err, &field) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nhas not %q", err, want)
		}
	}
}

// What decides must be root's or this user's, and nobody else's to write; what is
// secret nobody else's to read.
//
// proves part of H-74
func TestFiles(t *testing.T) {
	good := credential.Operator.New()
	path := file(t, good+"\n")
	flags := map[string][]string{"operator-token-file": {path}}
	c := load(t, config.Sources{Flags: flags})
	if string(c.OperatorToken) != good {
		t.Fatal("control: the token was not read")
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(config.Sources{Flags: flags, Machine: machine})
		if os.Geteuid() == 0 && mode == 0o640 {
			if err != nil { // systemd's credentials look so
				t.Errorf("root's own group: %v", err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "--operator-token-file: "+path+": may be ") {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
	conf := file(t, `{"slots": 3}`)
	for mode, want := range map[os.FileMode]string{0o644: "", 0o664: "may be written by others", 0o646: "may be written by others"} {
		if err := os.Chmod(conf, mode); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(config.Sources{File: conf, Machine: machine})
		if (err == nil) != (want == "") || want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
	if _, err := config.Load(config.Sources{File: t.TempDir(), Machine: machine}); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// No secret is printed, in whatever way, nor in a refusal; none can be written on the
// command line.
//
// proves part of H-74
func TestSecrets(t *testing.T) {
	token, password := credential.Operator.New(), strings.Repeat("pw-planted-", 4)
	c := load(t, config.Sources{Environ: []string{"GLOVEBOX_OPERATOR_TOKEN=" + token, "GLOVEBOX_ENCRYPTION_KEY=" + password, "GLOVEBOX_METRICS_PASSWORD_FILE=" + file(t, password)}})
	if string(c.OperatorToken) != token || string(c.EncryptionKey) != password || string(c.MetricsPassword) != password {
		t.Fatal("control: they were not read")
	}
	text := print(t, c) + fmt.Sprintf("%v %+v %#v %s", c.OperatorToken, *c, c.EncryptionKey, c.MetricsPassword)
	if strings.Contains(text, token) || strings.Contains(text, "planted") {
		t.Errorf("a secret is in:\n%s", text)
	}
	if got := row(t, c, "operator_token"); got != "set $GLOVEBOX_OPERATOR_TOKEN" {
		t.Errorf("operator_token: %s", got)
	}
	for _, environ := range [][]string{{"GLOVEBOX_OPERATOR_TOKEN=planted"}, {"GLOVEBOX_ACCESS_TOKEN=planted with spaces, and long enough for it"},
		{"GLOVEBOX_ENCRYPTION_KEY=planted"}, {"GLOVEBOX_METRICS_PASSWORD="}, {"GLOVEBOX_ACCESS_TOKEN=" + password, "GLOVEBOX_ACCESS_TOKEN_FILE=/x"}} {
		_, err := config.Load(config.Sources{Environ: environ, Machine: machine})
		if err == nil || strings.Contains(err.Error(), "planted") || !strings.Contains(err.Error(), "$GLOVEBOX_") {
			t.Errorf("%.30s…: %v", environ[0], err)
		}
	}
	for _, g := range config.Flags(machine) {
		for _, f := range g.Flags {
			if strings.Contains(f.Name, "token") || strings.Contains(f.Name, "password") || strings.Contains(f.Name, "encryption") {
				if !strings.HasSuffix(f.Name, "-file") {
					t.Errorf("--%s is a secret on the command line", f.Name)
				}
			}
		}
	}
}

// Beyond loopback quotas are in force, and there is TLS, a proxy or a word for it.
//
// proves part of X-14
func TestExposure(t *testing.T) {
	cert := map[string][]string{"tls-cert": {"/c"}, "tls-key": {"/k"}}
	for _, c := range []struct {
		addr   string
		more   map[string][]string
		refuse string
		quotas bool
	}{
		{"127.0.0.1:0", nil, "", false},
		{"127.9.9.9:80", nil, "", false},
		{"localhost:80", nil, "", false},
		{"[::1]:80", nil, "", false},
		{"[::ffff:127.0.0.1]:80", nil, "", false},
		{"127.0.0.1:80", map[string][]string{"public": {"true"}}, "", true},
		{"127.0.0.1:80", map[string][]string{"quotas": {"on"}}, "", true},
		{"192.0.2.1:80", nil, "is not loopback", true},
		{"[::ffff:192.0.2.1]:80", nil, "is not loopback", true},
		{"[2001:db8::1]:80", nil, "is not loopback", true},
		{"0.0.0.0:80", nil, "is not loopback", true},
		{"192.0.2.1:80", cert, "", true},
		{"192.0.2.1:80", map[string][]string{"trusted-proxy": {"192.0.2.7"}}, "", true},
		{"192.0.2.1:80", map[string][]string{"insecure-http": {"true"}}, "", true},
		{"192.0.2.1:80", map[string][]string{"insecure-http": {"true"}, "quotas": {"off"}}, "", false},
		{"0.0.0.0:80", cert, "needs --allow-host", true},
		{"[::]:80", cert, "needs --allow-host", true},
		{"0.0.0.0:80", map[string][]string{"tls-cert": {"/c"}, "tls-key": {"/k"}, "allow-host": {"run.example.com"}}, "", true},
	} {
		flags := map[string][]string{"addr": {c.addr}}
		for k, v := range c.more {
			flags[k] = v
		}
		got, err := config.Load(config.Sources{Flags: flags, Machine: machine})
		if (err == nil) != (c.refuse == "") || err != nil && !strings.Contains(err.Error(), c.refuse) {
			t.Errorf("%s %v: %v", c.addr, c.more, err)
		}
		if err == nil && got.QuotasInForce() != c.quotas {
			t.Errorf("%s %v: quotas %v", c.addr, c.more, got.QuotasInForce())
		}
	}
	// The listener of a service manager is judged as one of its own.
	c := load(t, config.Sources{})
	if err := c.Exposed(netip.MustParseAddrPort("192.0.2.1:80")); err == nil {
		t.Error("a foreign listener beyond loopback passes")
	}
}

// Every field of Config is in the table, so that it can be said and is shown.
func TestTable(t *testing.T) {
	c := load(t, config.Sources{})
	rows := strings.Count(print(t, c), "\n") - 1
	fields := 0
	for i := range reflect.TypeFor[config.Config]().NumField() {
		if f := reflect.TypeFor[config.Config]().Field(i); f.IsExported() && f.Name != "Unknown" {
			fields++
		}
	}
	if rows != fields {
		t.Errorf("%d settings for %d fields", rows, fields)
	}
	seen := map[string]bool{"config": true, "print-config": true, "help": true}
	for _, g := range config.Flags(machine) {
		for _, f := range g.Flags {
			if seen[f.Name] || f.Help == "" || strings.HasSuffix(f.Help, ".") {
				t.Errorf("--%s twice, or its help %q", f.Name, f.Help)
			}
			seen[f.Name] = true
		}
	}
	// What is printed as a value can be written as one.
	for _, g := range config.Flags(machine) {
		for _, f := range g.Flags {
			if f.Default == "" {
				continue
			}
			if _, err := config.Load(config.Sources{Flags: map[string][]string{f.Name: {f.Default}}, Machine: machine}); err != nil {
				t.Errorf("--%s %s: %v", f.Name, f.Default, err)
			}
		}
	}
}
