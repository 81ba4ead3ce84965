package config

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/api"
)

// setting is one row of the table.
type setting struct {
	// name is the setting's in the file; the variable and, but for lists, the flag are
	// made from it.
	name string
	// flag is "" for one that is made from the name.
	flag string
	help string // for the flag; what is in backquotes is the value's name
	kind kind
	from string // where the value came from
}

func (s *setting) flagName() string {
	n := cmp.Or(s.flag, strings.ReplaceAll(s.name, "_", "-"))
	if s.isSecret() {
		n += "-file"
	}
	return n
}

func (s *setting) variable() string { return "GLOVEBOX_" + strings.ToUpper(s.name) }

func (s *setting) isSecret() bool { _, is := s.kind.(secret); return is }

// isList is true of a setting whose flag is repeatable.
func (s *setting) isList() bool {
	switch s.kind.(type) {
	case list, networks, ceilings:
		return true
	}
	return false
}

// split cuts the variable of a list: at commas, paths as PATH is.
func (s *setting) split(written string) []string {
	if !s.isList() {
		return []string{written}
	}
	cut := func(s string) []string { return strings.Split(s, ",") }
	if s.name == "language_files" {
		cut = filepath.SplitList
	}
	var out []string
	for _, part := range cut(written) {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// group is a titled part of the table.
type group struct {
	title    string
	settings []*setting
}

// defaults fills a Config with the values of the table's last column.
func defaults(m Machine) *Config {
	ceilings := api.MaxLimits(m.Cores, m.Memory).Lower(api.ServiceMaxLimits(m.Cores))
	return &Config{
		Addr: "127.0.0.1:8080", ProxyHeader: HeaderForwardedFor, Connections: 1000,
		Data: m.Data, NATSReplicas: 1, Space: "glovebox", Fsync: FsyncInterval, Retention: 24 * time.Hour, MaxStore: 10 << 30, MinFree: 256 << 20,
		Slots: 2 * m.Cores, Backlog: 64, InFlight: 8, Sockets: 10, MaxBody: 8 << 20, MaxWait: time.Minute, MaxLimits: ceilings,
		Memory: m.Memory / 10 * 9 >> 20 << 20, Armed: 2, IPv4Bits: 32, IPv6Bits: 64,
		StoredPerHour: 256 << 20, KeyStoredPerHour: 1 << 30, EgressPerHour: 1 << 30, KeyEgressPerHour: 4 << 30, EgressInAll: 64 << 30,
		Quotas: Auto, QuotaRuns: 20, QuotaKeyRuns: 200, QuotaKeys: 5, KeyTTL: 90 * 24 * time.Hour,
		Sandbox: "require", DrainTimeout: 70 * time.Second, LogFormat: LogText, LogLevel: "info",
	}
}

// Machine is what defaults and bounds depend on.
type Machine struct {
	Cores  int
	Memory int64  // bytes
	Data   string // the data folder
}

// dataFolder is the default of data: the system's folder for root, the user's own otherwise.
func dataFolder() string {
	if os.Geteuid() == 0 {
		return "/var/lib/glovebox"
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "glovebox")
	}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		return filepath.Join(home, ".local/state/glovebox")
	}
	return ""
}

// ThisMachine is the one that this runs on, with the bytes of memory that it has.
func ThisMachine(memory int64) Machine {
	return Machine{Cores: runtime.NumCPU(), Memory: memory, Data: dataFolder()}
}

const year = 365 * 24 * time.Hour

// table has all settings, with their values in c.
func table(c *Config, m Machine) []group {
	return []group{listening(c), clients(c), capacity(c, m), storing(c), programs(c), operating(c)}
}

func listening(c *Config) group {
	path := func(to *string) text { return text{to, "a path", checkPath} }
	return group{"Listener", []*setting{
		{name: "addr", help: "`ADDRESS:PORT` to listen on, the address in numbers or localhost; nothing else listens",
			kind: text{&c.Addr, "ADDRESS:PORT, the address in numbers or localhost", checkAddr}},
		{name: "public", help: "strangers come here, as through a proxy to loopback: the hourly quotas are in force", kind: truth{&c.Public}},
		{name: "insecure_http", help: "listen beyond loopback without TLS and without a trusted proxy; keys and tokens then travel unencrypted", kind: truth{&c.InsecureHTTP}},
		{name: "allow_hosts", flag: "allow-host", help: "`NAME[:PORT]` that the Host of a request may be, besides a loopback listener's own (repeatable)",
			kind: list{&c.AllowHosts, "NAME or NAME:PORT in small letters", checkHost}},
		{name: "allow_origins", flag: "allow-origin", help: "`origin` of foreign pages that may ask, such as https://example.com (repeatable; none by default)",
			kind: list{&c.AllowOrigins, "an origin such as https://example.com", checkOrigin}},
		{name: "trusted_proxies", flag: "trusted-proxy", help: "`network` of proxies whose --proxy-header is believed, such as 10.0.0.0/8 (repeatable); without TLS a listener beyond loopback takes connections from them alone",
			kind: networks{&c.TrustedProxies}},
		{name: "proxy_header", help: "`header` in which trusted proxies say who asks: X-Forwarded-For or X-Real-IP",
			kind: word{&c.ProxyHeader, []string{HeaderForwardedFor, HeaderRealIP}}},
		{name: "tls_cert", help: "PEM `file` with the certificates of TLS, the service's first; read again on SIGHUP and when it changes", kind: path(&c.TLSCert)},
		{name: "tls_key", help: "PEM `file` with their key; nobody else may read it", kind: path(&c.TLSKey)},
		{name: "connections", help: "`number` of connections that may be open at once", kind: count(&c.Connections, 10, 100_000)},
	}}
}

func clients(c *Config) group {
	token := func(to *Secret) secret { return secret{to, "32 to 256 printable characters", checkSecret(32, 256)} }
	return group{"Clients", []*setting{
		{name: "quotas", help: "`when` the hourly quotas are in force: on, off, or auto: beyond loopback and with --public", kind: word{&c.Quotas, []string{Auto, On, Off}}},
		{name: "quota_runs", help: "`number` of runs an hour of a client without a key", kind: count(&c.QuotaRuns, 1, 2000)},
		{name: "quota_key_runs", help: "`number` of runs an hour of a key", kind: count(&c.QuotaKeyRuns, 1, 2000)},
		{name: "quota_keys", help: "`number` of keys that a client is given an hour", kind: count(&c.QuotaKeys, 1, 2000)},
		{name: "key_ttl", help: "`time` that a key lives, in days or hours", kind: duration(&c.KeyTTL, time.Minute, 10*year)},
		{name: "access_token", help: "`file` with the token that every request of a private installation needs", kind: token(&c.AccessToken)},
		{name: "operator_token", help: "`file` with the operator's token: gbp_ and 64 of 0-9 a-f", kind: secret{&c.OperatorToken, "gbp_ and 64 of 0-9 a-f", checkOperator}},
		{name: "metrics_password", help: "`file` with the password of /metrics", kind: secret{&c.MetricsPassword, "16 to 256 printable characters", checkSecret(16, 256)}},
		{name: "webhook_hosts", flag: "webhook-host", help: "`NAME[:PORT]` of a host that may be told of ends of runs, for holders of keys (repeatable; without one there are no webhooks)",
			kind: list{&c.WebhookHosts, "NAME or NAME:PORT in small letters", checkHost}},
		{name: "webhook_networks", flag: "webhook-network", help: "`network` that such a host may be in though it is not of the public internet (repeatable)", kind: networks{&c.WebhookNetworks}},
		{name: "stored_per_hour", help: "`size` of programs, results and artifacts that a client without a key may have stored in an hour, with the quotas", kind: size(&c.StoredPerHour, 1<<20, 1<<40)},
		{name: "key_stored_per_hour", help: "`size` of the same for a key", kind: size(&c.KeyStoredPerHour, 1<<20, 1<<40)},
		{name: "egress_per_hour", help: "`size` of answers to a client without a key in an hour, with the quotas", kind: size(&c.EgressPerHour, 1<<20, 1<<50)},
		{name: "key_egress_per_hour", help: "`size` of the same for a key", kind: size(&c.KeyEgressPerHour, 1<<20, 1<<50)},
		{name: "egress_in_all", help: "`size` of answers to all clients in an hour, with the quotas", kind: size(&c.EgressInAll, 1<<20, 1<<50)},
		{name: "ipv4_bits", help: "`number` of bits of an IPv4 address that are one client", kind: count(&c.IPv4Bits, 24, 32)},
		{name: "ipv6_bits", help: "`number` of bits of an IPv6 address that are one client", kind: count(&c.IPv6Bits, 48, 128)},
	}}
}

func capacity(c *Config, m Machine) group {
	return group{"Capacity", []*setting{
		{name: "slots", help: "`number` of programs that run at once; the default is two for each processor", kind: count(&c.Slots, 1, 10_000)},
		{name: "backlog", help: "`number` of runs that wait for a slot, of all clients", kind: count(&c.Backlog, 1, 50_000)},
		{name: "in_flight", help: "`number` of runs of one client that wait or run", kind: count(&c.InFlight, 1, 50_000)},
		{name: "sockets", help: "`number` of streams that may watch one run", kind: count(&c.Sockets, 1, 10_000)},
		{name: "memory", help: "`size` of what the limits of all programs that run, and bodies, may come to; the default is nine tenths of the machine's", kind: size(&c.Memory, 64<<20, max(m.Memory, 64<<20))},
		{name: "armed", help: "`number` of sealed cells that wait for a program", kind: count(&c.Armed, 0, 1000)},
		{name: "max_body", help: "`size` of the longest body of a request", kind: size(&c.MaxBody, 64<<10, 64<<20)},
		{name: "max_wait", help: "`time` of the longest ?wait", kind: duration(&c.MaxWait, time.Second, time.Hour)},
		{name: "max_limits", flag: "max", help: "`NAME=VALUE`: the most that a program may ask of a limit of run, such as memory=512MiB (repeatable)",
			kind: ceilings{&c.MaxLimits, api.MaxLimits(m.Cores, m.Memory)}},
	}}
}

func storing(c *Config) group {
	return group{"Store", []*setting{
		{name: "data", help: "`folder` with everything that the service keeps, made if it is missing (default: /var/lib/glovebox for root, ~/.local/state/glovebox for others)",
			kind: text{&c.Data, "an absolute path", checkFolder}},
		{name: "retention", help: "`time` that results and artifacts are kept", kind: duration(&c.Retention, time.Minute, year)},
		{name: "max_store", help: "`size` of all that is kept", kind: size(&c.MaxStore, 64<<20, 1<<50)},
		{name: "min_free", help: "`size` of what must be free of the file system for a run to be accepted", kind: size(&c.MinFree, 1<<20, 1<<50)},
		{name: "fsync", help: "`when` what was accepted is safe from loss of power: always, or interval: ten seconds later", kind: word{&c.Fsync, []string{FsyncInterval, FsyncAlways}}},
		{name: "encryption_key", help: "`file` with the key that encrypts the store: at least 32 characters", kind: secret{&c.EncryptionKey, "32 to 256 printable characters", checkSecret(32, 256)}},
		{name: "nats", help: "`URL` of an external NATS server in the place of the store in --data, such as tls://nats.example.com:4222", kind: text{&c.NATS, "nats://HOST:PORT or tls://HOST:PORT", checkNATS}},
		{name: "nats_creds", help: "`file` of its credentials; nobody else may read it", kind: text{&c.NATSCreds, "a path", checkPath}},
		{name: "nats_user", help: "`name` of its user", kind: text{&c.NATSUser, "a name", nil}},
		{name: "nats_password", help: "`file` with that user's password", kind: secret{&c.NATSPassword, "1 to 256 printable characters", checkSecret(1, 256)}},
		{name: "nats_ca", help: "PEM `file` of the certificates to trust there, in the place of the system's", kind: text{&c.NATSCA, "a path", checkPath}},
		{name: "nats_insecure", help: "connect there without TLS or credentials; the status says so", kind: truth{&c.NATSInsecure}},
		{name: "nats_replicas", help: "`number` of its servers that keep everything", kind: count(&c.NATSReplicas, 1, 5)},
		{name: "space", help: "`name` that tells installations that share a NATS server apart", kind: text{&c.Space, "1 to 16 letters, digits, _ and -", checkSpace}},
	}}
}

func programs(c *Config) group {
	return group{"Programs", []*setting{
		{name: "sandbox", help: "`mode`: require every layer, or auto for what this host can give", kind: word{&c.Sandbox, []string{"require", "auto"}}},
		{name: "policy", help: "JSON `file` that says which sources may run (docs/gates.md)", kind: text{&c.Policy, "a path", checkPath}},
		{name: "profile", help: "JSON `file` of system calls to allow besides", kind: text{&c.Profile, "a path", checkPath}},
		{name: "language_files", flag: "language-file", help: "`file` of a further language, or of another in the place of one (repeatable)", kind: list{&c.LanguageFiles, "a path", checkPath}},
		{name: "cache_dir", help: "`folder` of the compilers' caches that glovebox languages --warm fills (default: /var/cache/glovebox, /var/tmp/glovebox-UID for an ordinary user)", kind: text{&c.CacheDir, "a path", checkPath}},
	}}
}

func operating(c *Config) group {
	return group{"Operation", []*setting{
		{name: "drain_timeout", help: "`time` for runs to end after SIGTERM, before they are interrupted", kind: duration(&c.DrainTimeout, 0, time.Hour)},
		{name: "audit", help: "`folder` of the audit log; without it the folder audit in that of --data", kind: text{&c.Audit, "an absolute path", checkFolder}},
		{name: "audit_strict", help: "accept nothing while the audit log cannot be written", kind: truth{&c.AuditStrict}},
		{name: "log_format", help: "`form` of the log on stderr: text or json", kind: word{&c.LogFormat, []string{LogText, LogJSON}}},
		{name: "log_level", help: "`level` from which on something is logged: debug, info, warn or error", kind: word{&c.LogLevel, []string{"debug", "info", "warn", "error"}}},
	}}
}
