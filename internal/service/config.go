package service

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/internal/admission"
	"github.com/glovebox-dev/glovebox/internal/config"
	"github.com/glovebox-dev/glovebox/internal/queue"
	"github.com/glovebox-dev/glovebox/internal/server"
	"github.com/glovebox-dev/glovebox/internal/telemetry"
	"github.com/glovebox-dev/glovebox/internal/webhook"
)

// FromConfig makes the options of a service that a configuration asks for. Listeners,
// the gate and additions to profiles are the caller's to fill in. The error is about
// the files of TLS.
func FromConfig(c *config.Config, log *slog.Logger) (Options, error) {
	o := Options{
		Dir: c.Data, Slots: c.Slots, Backlog: c.Backlog, Log: log,
		Queue: queue.Options{
			URL: c.NATS, CredsFile: c.NATSCreds, User: c.NATSUser, Password: string(c.NATSPassword), CAFile: c.NATSCA, Insecure: c.NATSInsecure,
			Space: c.Space, Replicas: c.NATSReplicas, FsyncAlways: c.Fsync == config.FsyncAlways, EncryptionKey: string(c.EncryptionKey),
			MaxBytes: c.MaxStore, MinFree: c.MinFree, Retention: c.Retention,
		},
		Box: glovebox.Options{
			Sandbox: glovebox.Sandbox(c.Sandbox), MaxLimits: c.MaxLimits, Languages: c.LanguageFiles, CacheDir: c.CacheDir, Armed: c.Armed,
		},
		Admission: admission.Options{
			IPv4Bits: c.IPv4Bits, IPv6Bits: c.IPv6Bits, CoarseIPv4Bits: min(24, c.IPv4Bits), CoarseIPv6Bits: min(48, c.IPv6Bits),
			Quotas: c.QuotasInForce(), RunsPerHour: c.QuotaRuns, KeyRunsPerHour: c.QuotaKeyRuns, KeysPerHour: c.QuotaKeys,
			StoredPerHour: c.StoredPerHour, KeyStoredPerHour: c.KeyStoredPerHour,
			EgressPerHour: c.EgressPerHour, KeyEgressPerHour: c.KeyEgressPerHour, EgressInAll: c.EgressInAll,
			KeyTTL: c.KeyTTL, InFlight: c.InFlight, SocketsPerRun: c.Sockets,
			OperatorToken: string(c.OperatorToken), AccessToken: string(c.AccessToken),
		},
		Audit:   telemetry.AuditOptions{Dir: c.Audit, FsyncAlways: c.Fsync == config.FsyncAlways, Strict: c.AuditStrict},
		Metrics: telemetry.Options{Password: string(c.MetricsPassword)},
		Memory:  c.Memory,
		Hooks:   webhook.Options{Allow: c.WebhookHosts, AllowAddresses: c.WebhookNetworks},
		Server: server.Options{
			Hosts: c.AllowHosts, Origins: c.AllowOrigins, MaxBody: c.MaxBody, MaxWait: c.MaxWait, MaxConns: c.Connections,
			InFlight: c.InFlight, Sockets: c.Sockets, Retention: c.Retention,
		},
	}
	// A network is counted run by run, so that there is a most of it.
	o.Admission.CoarseFactor = max(1, min(16, 4000/max(c.QuotaRuns, c.QuotaKeys)))
	if c.Armed == 0 {
		o.Box.Armed = -1 // for which zero is the default
	}
	if len(c.TrustedProxies) > 0 {
		o.Admission.ProxyHeader, o.Admission.Trusted = c.ProxyHeader, c.TrustedProxies
	}
	if c.TLS() {
		certs, err := LoadCertificates(c.TLSCert, c.TLSKey, log)
		if err != nil {
			return o, err
		}
		o.Certificates = certs
	}
	return o, nil
}

// Guard is a listener that answers whom the configuration lets it answer: everybody,
// or beyond loopback and without TLS its trusted proxies alone. The error is a
// *[api.FieldError] when the address is one that must not be listened on.
func Guard(l net.Listener, c *config.Config) (net.Listener, error) {
	a, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("a listener at %s: must be one of TCP", l.Addr())
	}
	if err := c.Exposed(a); err != nil {
		return nil, err
	}
	if a.Addr().Unmap().IsLoopback() || c.TLS() || c.InsecureHTTP {
		return l, nil
	}
	return &proxiesOnly{l, c.TrustedProxies}, nil
}

// proxiesOnly closes connections from everybody but proxies.
type proxiesOnly struct {
	net.Listener
	trusted []netip.Prefix
}

func (l *proxiesOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer, err := netip.ParseAddrPort(c.RemoteAddr().String())
		for _, p := range l.trusted {
			if err == nil && p.Contains(peer.Addr().Unmap().WithZone("")) {
				return c, nil
			}
		}
		_ = c.Close()
	}
}
