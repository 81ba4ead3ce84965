package egress

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]URL{
		"https://api.example.com":             {Origin{"https", "api.example.com", 443}, "/", "", false},
		"https://api.example.com:443/v1?":     {Origin{"https", "api.example.com", 443}, "/v1", "", true},
		"http://api.example.com:8080/a/b/?q":  {Origin{"http", "api.example.com", 8080}, "/a/b/", "q", true},
		"http://8.8.8.8/":                     {Origin{"http", "8.8.8.8", 80}, "/", "", false},
		"http://[2002:808:808::]:81/x":        {Origin{"http", "2002:808:808::", 81}, "/x", "", false},
		"http://xn--bcher-kva.example/":       {Origin{"http", "xn--bcher-kva.example", 80}, "/", "", false},
		"http://localhost?a=/../b?c&d=%2f%0d": {Origin{"http", "localhost", 80}, "/", "a=/../b?c&d=%2f%0d", true},
		"http://a_b.x1/%C3%A9;p=1/@:$&'()*+,": {Origin{"http", "a_b.x1", 80}, "/%C3%A9;p=1/@:$&'()*+,", "", false},
		"http://x/a..b/.well-known/...":       {Origin{"http", "x", 80}, "/a..b/.well-known/...", "", false},
	} {
		got, err := Parse(in)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", in, got, err, want)
		}
	}
}

// TestParseRefuses has a neighbour of each refused URL that passes: it is the
// one thing that is refused.
// Long because of its table.
//
// proves part of S-16
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ bad, good, why string }{
		{"ftp://x/", "http://x/", "begin with"},
		{"HTTP://x/", "http://x/", "begin with"},
		{"//x/", "http://x/", "begin with"},
		{"http:/x/", "http://x/", "begin with"},
		{"file:///etc/passwd", "http://x/etc/passwd", "begin with"},
		{"http://user@x/", "http://x/user", "a user"},
		{"http://user:pw@x/", "http://x/", "a user"},
		{"http://x/#f", "http://x/f", "fragment"},
		{"http://x\\@y/", "http://x/@y/", "backslash"},
		{"http://x/a b", "http://x/a%20b", "space"},
		{"http://x/\r\nHost: y", "http://x/", "control"},
		{"http://x/\t", "http://x/", "control"},
		{"http://①②⑦.0.0.1/", "http://127.0.0.1/", "beyond ASCII"},
		{"http://аpple.com/", "http://apple.com/", "beyond ASCII"}, // Cyrillic
		{"http://x/é", "http://x/%c3%a9", "beyond ASCII"},
		{"http://EXAMPLE.com/", "http://example.com/", "lower case"},
		{"http://example.com./", "http://example.com/", "dot at its end"},
		{"http://example..com/", "http://example.com/", "bad part"},
		{"http://-x.com/", "http://x-y.com/", "bad part"},
		{"http:///x", "http://x/x", "no host"},
		{"http://127.1/", "http://127.0.0.1/", "looks like a number"},
		{"http://2130706433/", "http://127.0.0.1/", "looks like a number"},
		{"http://0x7f.1/", "http://127.0.0.1/", "looks like a number"},
		{"http://0x7f000001/", "http://127.0.0.1/", "looks like a number"},
		{"http://0177.0.0.1/", "http://177.0.0.1/", "looks like a number"},
		{"http://127.0.0.0x1/", "http://127.0.0.x1/", "looks like a number"},
		{"http://1.2.3.4.5/", "http://1.2.3.4/", "looks like a number"},
		{"http://256.1.1.1/", "http://255.1.1.1/", "looks like a number"},
		{"http://%31.1.1.1/", "http://1.1.1.1/", "character that names do not have"},
		{"http://[fe80::1%25eth0]/", "http://[fe80::1]/", "IPv6"},
		{"http://[fe80::1%eth0]/", "http://[fe80::1]/", "IPv6"},
		{"http://[0:0::1]/", "http://[::1]/", "IPv6"},
		{"http://[::FFFF:1.2.3.4]/", "http://[::ffff:1.2.3.4]/", "IPv6"},
		{"http://[::ffff:a9fe:a9fe]/", "http://[::ffff:169.254.169.254]/", "IPv6"},
		{"http://[1.2.3.4]/", "http://1.2.3.4/", "IPv6"},
		{"http://[::1/", "http://[::1]/", "bracket"},
		{"http://[::1]x/", "http://[::1]:1/", "behind the address"},
		{"http://x:/", "http://x:1/", "port"},
		{"http://x:0/", "http://x:1/", "port"},
		{"http://x:080/", "http://x:80/", "port"},
		{"http://x:+80/", "http://x:80/", "port"},
		{"http://x:65536/", "http://x:65535/", "port"},
		{"http://x:80:81/", "http://x:80/", "port"},
		{"http://x/a/../b", "http://x/a/b", "dot segment"},
		{"http://x/a/./b", "http://x/a/b", "dot segment"},
		{"http://x/a/..", "http://x/a/..b", "dot segment"},
		{"http://x/a/..;/b", "http://x/a/b;/b", "dot segment"},
		{"http://x/a/..;x=1/b", "http://x/a/b;x=1/b", "dot segment"},
		{"http://x/a/..%3b/b", "http://x/a/b%3b/b", "dot segment"},
		{"http://x/a//b", "http://x/a/b", "empty segment"},
		{"http://x//y/", "http://x/y/", "empty segment"},
		{"http://x/a/;p/b", "http://x/a/b", "empty segment"},
		{"http://x/a/;p", "http://x/a/", "empty segment"},
		{"http://x/a%2fb", "http://x/a%20b", "separator"},
		{"http://x/a%2Fb", "http://x/a%20b", "separator"},
		{"http://x/%2e%2e/b", "http://x/%2d%2d/b", "dot in an escape"},
		{"http://x/.%2e/b", "http://x/.b/b", "dot in an escape"},
		{"http://x/a%5cb", "http://x/a%20b", "backslash"},
		{"http://x/a%252fb", "http://x/a%20b", "percent sign"},
		{"http://x/a%00b", "http://x/a%20b", "control"},
		{"http://x/a%0d%0ab", "http://x/a?%0d%0ab", "control"},
		{"http://x/a%c0%afb", "http://x/a%c3%a9b", "UTF-8"},
		{"http://x/a%ff", "http://x/a%c3%bf", "UTF-8"},
		{"http://x/a%ef%bc%8fb", "http://x/a%ef%bc%81b", "separator"},
		{"http://x/%e2%80%a5/b", "http://x/%e2%80%a0/b", "separator"},
		{"http://x/a%2", "http://x/a%20", "escaped"},
		{"http://x/a%zz", "http://x/a%20", "escaped"},
		{"http://x/a{b}", "http://x/a%7bb%7d", "escaped"},
		{"http://x/a?b^", "http://x/a?b", "query"},
		{"http://x/a?b%q", "http://x/a?b%20", "query"},
		{"http://x/" + strings.Repeat("a", MaxURL), "http://x/" + strings.Repeat("a", MaxURL-9), "longer"},
		{"http://" + strings.Repeat("a", 64) + "/", "http://" + strings.Repeat("a", 63) + "/", "bad part"},
		{"http://" + strings.Repeat("a.", 127) + "/", "http://" + strings.Repeat("a.", 126) + "a/", "too long"},
	} {
		if got, err := Parse(c.bad); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("Parse(%.60q) = %+v, %v; want an error with %q", c.bad, got, err, c.why)
		}
		if _, err := Parse(c.good); err != nil {
			t.Errorf("the control %.60q: %v", c.good, err)
		}
	}
}

func TestParseOrigin(t *testing.T) {
	for _, s := range []string{"http://x/", "http://x?", "http://x/a", "x", "http://x?a"} {
		if o, err := ParseOrigin(s); err == nil {
			t.Errorf("ParseOrigin(%q) = %v, want an error", s, o)
		}
	}
	for _, s := range []string{"https://x", "http://x:81", "http://[::1]:8080", "https://1.2.3.4"} {
		if o, err := ParseOrigin(s); err != nil || o.String() != s {
			t.Errorf("ParseOrigin(%q) = %v, %v", s, o, err)
		}
	}
}

// FuzzParse: what passes means the same to Go's own parser, is sent as it is
// written, and is taken again when it is written out.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"https://a.b:8443/c/%20d;e?f=%2f", "http://[::1]:1/", "http://1.2.3.4?", "http://0x7f.1/", "http://x/%2e%2e/", "http://x/a//b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := Parse(s)
		if err != nil {
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%q in an error", err)
			}
			return
		}
		std, err := url.Parse(s)
		if err != nil {
			t.Fatalf("Parse takes %q, net/url does not: %v", s, err)
		}
		if std.Hostname() != u.Host || std.Scheme != u.Scheme || std.RawQuery != u.Query || std.User != nil || std.Fragment != "" {
			t.Errorf("%q: %+v, net/url has %+v", s, u, std)
		}
		if std.EscapedPath() != u.Path && (std.Path != "" || u.Path != "/") {
			t.Errorf("%q: path %q, net/url has %q", s, u.Path, std.EscapedPath())
		}
		sent, err := u.Standard()
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		req, err := http.NewRequest(http.MethodGet, sent.String(), nil)
		if err != nil || req.URL.RequestURI() != u.Target() || req.Host != u.Authority() {
			t.Errorf("%q: %v, sent %q to %q", s, err, req.URL.RequestURI(), req.Host)
		}
		if again, err := Parse(u.String()); err != nil || again != u {
			t.Errorf("%q written out is %q: %+v, %v", s, u.String(), again, err)
		}
	})
}
