// Package config is the configuration of the service: one struct, one table of
// settings, and where each value came from. What was written on the command line wins
// over the environment, that over the file, and that over the defaults. A value that
// cannot be meant is an error that names it; nothing is clamped.
package config

import (
	"net/netip"
	"time"

	"github.com/glovebox-dev/glovebox/api"
)

// Config is everything that the service can be told. The table in settings.go has
// the name, the default and the bounds of each; [Load] fills and checks it.
type Config struct {
	// Addr is the one address that is listened on, IP:PORT. With socket activation the
	// listener comes from the service manager.
	Addr string
	// Public says that strangers come here although the listener is loopback, as behind
	// a proxy: quotas are in force.
	Public bool
	// InsecureHTTP allows plain HTTP beyond loopback with no proxy named.
	InsecureHTTP bool
	// AllowHosts are the names that the Host header may have besides those of a loopback
	// listener: NAME or NAME:PORT. AllowOrigins are origins of foreign pages that may ask.
	AllowHosts   []string
	AllowOrigins []string
	// TrustedProxies may say in ProxyHeader whose request they pass on.
	TrustedProxies []netip.Prefix
	ProxyHeader    string
	// TLSCert and TLSKey are PEM files, both or neither.
	TLSCert, TLSKey string
	// Connections is how many may be open at once.
	Connections int

	// Data is the folder with everything that the service keeps.
	Data string
	// NATS is the URL of an external server; empty means the embedded one.
	NATS         string
	NATSCreds    string
	NATSUser     string
	NATSPassword Secret
	NATSCA       string
	NATSInsecure bool
	NATSReplicas int
	// Space tells installations that share an external server apart.
	Space string
	// Fsync is FsyncInterval or FsyncAlways.
	Fsync         string
	EncryptionKey Secret
	Retention     time.Duration
	MaxStore      int64 // bytes of the data folder
	MinFree       int64 // bytes of the file system

	// Slots is how many programs run at once, Backlog how many wait for one, InFlight
	// how many of both are one client's, Sockets how many streams may watch one run.
	Slots    int
	Backlog  int
	InFlight int
	Sockets  int
	// Memory is what the limits of all programs that run may come to, in bytes.
	Memory int64
	// Armed is how many sealed cells wait for a program.
	Armed int
	// MaxBody is the longest body of a request, MaxWait the longest ?wait.
	MaxBody   int64
	MaxWait   time.Duration
	MaxLimits api.Limits

	// Quotas is Auto, On or Off; see [Config.QuotasInForce]. The counts are for an hour.
	Quotas        string
	QuotaRuns     int // of an anonymous client
	QuotaKeyRuns  int // of a key
	QuotaKeys     int // keys issued to a client
	KeyTTL        time.Duration
	AccessToken   Secret // opens a private installation; empty: no token is asked for
	OperatorToken Secret // empty: nobody is the operator
	// MetricsPassword guards /metrics; empty: only loopback and the operator may read them.
	MetricsPassword Secret
	// WebhookHosts are those that may be told of ends of runs; none: nobody. They are in
	// the public internet or in WebhookNetworks.
	WebhookHosts    []string
	WebhookNetworks []netip.Prefix
	// What a client without a key, a key, and all may have stored and be sent in an hour,
	// in bytes, where the quotas are in force.
	StoredPerHour, KeyStoredPerHour              int64
	EgressPerHour, KeyEgressPerHour, EgressInAll int64
	// How many bits of an address are one client.
	IPv4Bits, IPv6Bits int

	LanguageFiles []string
	CacheDir      string
	Policy        string // a file, see docs/gates.md
	Profile       string // a file of system calls to allow besides
	Sandbox       string // require or auto

	DrainTimeout time.Duration
	Audit        string // a folder; empty: audit in Data
	AuditStrict  bool
	LogFormat    string // LogText or LogJSON
	LogLevel     string // debug, info, warn or error

	// Unknown are the variables GLOVEBOX_… of the environment that are no setting.
	Unknown []string

	settings []*setting
}

// Words of settings.
const (
	Auto          = "auto"
	On            = "on"
	Off           = "off"
	FsyncInterval = "interval"
	FsyncAlways   = "always"
	LogText       = "text"
	LogJSON       = "json"
)

// Headers in which a proxy may say whose request it passes on.
const (
	HeaderForwardedFor = "X-Forwarded-For"
	HeaderRealIP       = "X-Real-IP"
)

// Secret is a text that opens something. It prints as "set" or "not set".
type Secret string

// String keeps the secret out of logs.
func (s Secret) String() string {
	if s == "" {
		return "not set"
	}
	return "set"
}

// GoString keeps the secret out of logs.
func (s Secret) GoString() string { return s.String() }

// MarshalText keeps the secret out of logs and files.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Loopback tells whether the address in numbers is one of loopback.
func (c *Config) Loopback() bool {
	a, err := netip.ParseAddrPort(c.Addr)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// TLS tells whether the service itself speaks TLS.
func (c *Config) TLS() bool { return c.TLSCert != "" }

// QuotasInForce tells whether the hourly quotas count: as said, and with Auto where
// strangers come, beyond loopback or with Public.
func (c *Config) QuotasInForce() bool {
	if c.Quotas != Auto {
		return c.Quotas == On
	}
	return c.Public || !c.Loopback()
}
