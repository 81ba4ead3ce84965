package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxURL is the length of a URL, in bytes.
const MaxURL = 8 << 10

// Origin is where a URL leads. Two are the same place if and only if they are
// equal.
type Origin struct {
	Scheme string // "http" or "https"
	Host   string // a name in lower case, or an address in its shortest form without brackets
	Port   uint16 // never 0
}

// String returns the origin as a URL has it, without the port that its scheme
// implies.
func (o Origin) String() string { return o.Scheme + "://" + o.Authority() }

// Authority returns host and port as the header Host has them.
func (o Origin) Authority() string {
	host := o.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if o.Port == defaultPort(o.Scheme) {
		return host
	}
	return host + ":" + strconv.Itoa(int(o.Port))
}

func defaultPort(scheme string) uint16 {
	if scheme == "https" {
		return 443
	}
	return 80
}

// URL is one that has passed [Parse].
type URL struct {
	Origin
	Path  string // as written, "/" for none; no dot segments, empty segments or encoded separators
	Query string // as written, without its question mark
	asked bool   // there is a question mark
}

// String returns the URL as it is sent.
func (u URL) String() string { return u.Origin.String() + u.Target() }

// Target returns path and query, as the first line of a request has them.
func (u URL) Target() string {
	if u.asked {
		return u.Path + "?" + u.Query
	}
	return u.Path
}

// Standard returns u for net/http, whose request sends exactly u.Target.
func (u URL) Standard() (*url.URL, error) {
	path, err := url.PathUnescape(u.Path)
	if err != nil {
		return nil, err
	}
	std := &url.URL{Scheme: u.Scheme, Host: u.Authority(), Path: path, RawPath: u.Path, RawQuery: u.Query, ForceQuery: u.asked && u.Query == ""}
	if got := std.RequestURI(); got != u.Target() {
		return nil, fmt.Errorf("the path would be sent as %q", got)
	}
	return std, nil
}

// Parse reads an absolute URL of the schemes http and https. It takes one
// spelling and repairs nothing: no user, fragment, backslash or space, no
// character beyond ASCII; the host is a name in lower case without a dot at its
// end, or an address in its shortest form (so no octal, hexadecimal, short or
// whole-number IPv4, and no zone); no path segment is empty, "." or "..", also
// not with a parameter behind a semicolon, and no separator, dot, control
// character or percent sign hides in an escape. The port of the scheme may be
// named. The error is one clause in English without the URL.
func Parse(s string) (URL, error) {
	if len(s) > MaxURL {
		return URL{}, fmt.Errorf("is longer than %d bytes", MaxURL)
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ' || c >= 0x7f:
			return URL{}, fmt.Errorf("has a space, control character or letter beyond ASCII at byte %d", i)
		case c == '\\':
			return URL{}, fmt.Errorf("has a backslash at byte %d", i)
		case c == '#':
			return URL{}, fmt.Errorf("has a fragment at byte %d", i)
		}
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme != "https" && scheme != "http" {
		return URL{}, fmt.Errorf("does not begin with https:// or http://")
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	u := URL{Origin: Origin{Scheme: scheme}}
	if err := u.authority(rest[:end]); err != nil {
		return URL{}, err
	}
	u.Path, u.Query, u.asked = strings.Cut(rest[end:], "?")
	if u.Path == "" {
		u.Path = "/"
	}
	if err := checkPath(u.Path); err != nil {
		return URL{}, err
	}
	if i := wrongIn(u.Query, queryMarks); i >= 0 {
		return URL{}, fmt.Errorf("has %q in its query, which must be escaped", u.Query[i])
	}
	return u, nil
}

// ParseOrigin reads a URL that has no path and no query.
func ParseOrigin(s string) (Origin, error) {
	u, err := Parse(s)
	if err == nil && (u.Path != "/" || u.asked || strings.HasSuffix(s, "/")) {
		err = fmt.Errorf("has a path or a query")
	}
	return u.Origin, err
}

// authority reads host and port.
func (o *Origin) authority(s string) error {
	if strings.Contains(s, "@") {
		return fmt.Errorf("has a user")
	}
	host, port, hasPort := s, "", false
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return fmt.Errorf("has a bracket without its other half")
		}
		host, port = s[1:end], s[end+1:]
		if hasPort = port != ""; hasPort {
			if port[0] != ':' {
				return fmt.Errorf("has something behind the address")
			}
			port = port[1:]
		}
		a, err := netip.ParseAddr(host)
		if err != nil || !a.Is6() || a.Zone() != "" || a.String() != host {
			return fmt.Errorf("has no IPv6 address in its shortest form between its brackets")
		}
	} else {
		host, port, hasPort = strings.Cut(s, ":")
		if err := checkHost(host); err != nil {
			return err
		}
	}
	o.Host, o.Port = host, defaultPort(o.Scheme)
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '0' || port[0] == '+' {
			return fmt.Errorf("has no port from 1 to 65535 behind its colon")
		}
		o.Port = uint16(n)
	}
	return nil
}

// checkHost judges a name or an IPv4 address.
func checkHost(host string) error {
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() && a.String() == host {
		return nil
	}
	if len(host) == 0 || len(host) > 253 {
		return fmt.Errorf("has no host, or one that is too long")
	}
	if strings.HasSuffix(host, ".") {
		return fmt.Errorf("has a host with a dot at its end")
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return fmt.Errorf("has a host with an empty or bad part")
		}
		for i := range len(label) {
			if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return fmt.Errorf("has a host that is not in lower case, or has a character that names do not have")
			}
		}
	}
	// What ends in a number is an address for some readers, and which one differs.
	if last := labels[len(labels)-1]; digits(last) || strings.HasPrefix(last, "0x") && hex(last[2:]) {
		return fmt.Errorf("has a host that looks like a number and is no IPv4 address in its usual form")
	}
	return nil
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }
func hex(s string) bool    { return strings.Trim(s, "0123456789abcdef") == "" }

// The characters beside letters and digits that RFC 3986 has unescaped.
const (
	pathMarks  = "-._~!$&'()*+,;=:@/%"
	queryMarks = pathMarks + "?"
)

// wrongIn returns the place of the first byte that must not stand there, or of a
// percent sign that begins no escape; -1 for none.
func wrongIn(s, marks string) int {
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		switch {
		case !letter && strings.IndexByte(marks, c) < 0:
			return i
		case c == '%' && (len(s)-i < 3 || !hex(strings.ToLower(s[i+1:i+3]))):
			return i
		}
	}
	return -1
}

// lookalikes are characters that some servers take for a separator or a dot.
const lookalikes = "\u2024\u2025\u2026\u2044\u2215\u2216\u29f5\u29f8\u29f9\ufe52\ufe68\uff0e\uff0f\uff3c\uff61\u3002"

// checkPath judges a path that begins with a slash.
func checkPath(path string) error {
	if i := wrongIn(path, pathMarks); i >= 0 {
		return fmt.Errorf("has %q in its path, which must be escaped", path[i])
	}
	plain, err := url.PathUnescape(path)
	if err != nil || !utf8.ValidString(plain) {
		return fmt.Errorf("has a path that is not UTF-8 behind its escapes")
	}
	if strings.Count(plain, "/") != strings.Count(path, "/") || strings.Count(plain, ".") != strings.Count(path, ".") {
		return fmt.Errorf("has a separator or a dot in an escape")
	}
	for _, r := range plain {
		if r < ' ' || r == 0x7f || r == '\\' || r == '%' || r == '\ufeff' || strings.ContainsRune(lookalikes, r) {
			return fmt.Errorf("has a control character, a backslash, a percent sign or what looks like a separator in an escape")
		}
	}
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		// What is behind a semicolon is a parameter for some servers, an escaped one too.
		open, err := url.PathUnescape(s)
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(open, ";")
		if name == "." || name == ".." {
			return fmt.Errorf("has a dot segment in its path")
		}
		if name == "" && (i < len(segments)-1 || s != "") {
			return fmt.Errorf("has an empty segment in its path")
		}
	}
	return nil
}
