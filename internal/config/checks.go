package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/credential"
)

// checkAddr takes an address in numbers and a port. "localhost" is normalised by Load.
func checkAddr(s string) error {
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Addr().Zone() != "" {
		return errors.New("must be ADDRESS:PORT with the address in numbers or localhost, such as 127.0.0.1:8080 or [::1]:8080, and a port from 0 to 65535")
	}
	return nil
}

// checkHost takes what the Host header of a request can be equal to.
func checkHost(s string) error {
	u, err := url.Parse("http://" + s)
	if err != nil || s == "" || u.Host != s || u.User != nil || u.Hostname() == "" || strings.ToLower(s) != s || strings.HasSuffix(u.Hostname(), ".") || strings.Contains(s, "*") {
		return errors.New("must be NAME or NAME:PORT in small letters, such as run.example.com")
	}
	return nil
}

// checkOrigin takes what the Origin header of a request can be equal to.
func checkOrigin(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || s != u.Scheme+"://"+u.Host || strings.ToLower(s) != s || strings.Contains(s, "*") {
		return errors.New("must be an origin, such as https://example.com")
	}
	return nil
}

// checkNATS takes the URLs of a server, or of several of one cluster.
func checkNATS(list string) error {
	for s := range strings.SplitSeq(list, ",") {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "nats" && u.Scheme != "tls" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("must be nats://HOST:PORT or tls://HOST:PORT, or several of them with commas between")
		}
		if u.User != nil {
			return errors.New("must have no user or password in it; nats_user and nats_password are for that")
		}
	}
	return nil
}

func checkSpace(s string) error {
	if len(s) > 16 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return errors.New("must be 1 to 16 letters, digits, _ and -")
	}
	return nil
}

func checkPath(s string) error {
	if s == "" {
		return errors.New("must be a path")
	}
	return nil
}

// checkFolder takes a whole path, so that it does not depend on where the service starts.
func checkFolder(s string) error {
	if !filepath.IsAbs(s) || filepath.Clean(s) != strings.TrimRight(s, "/") {
		return errors.New("must be an absolute path without .. in it")
	}
	return nil
}

// checkSecret takes what nobody guesses and every header can carry.
func checkSecret(lo, hi int) func(string) error {
	return func(s string) error {
		if len(s) < lo || len(s) > hi {
			return fmt.Errorf("must have from %d to %d characters", lo, hi)
		}
		for _, c := range []byte(s) {
			if c <= ' ' || c > '~' {
				return errors.New("must be printable ASCII without spaces")
			}
		}
		return nil
	}
}

func checkOperator(s string) error { return credential.Operator.Check(s) }
