package admission

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
)

// behind is an Admission that trusts a proxy and its network.
func behind(t testing.TB, o Options) *Admission {
	t.Helper()
	o.ProxyHeader = "x-forwarded-for"
	o.Trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:aaaa::/48"), netip.MustParsePrefix("::ffff:172.16.0.0/108")}
	return open(t, o)
}

// A hundred thousand addresses of one /64 are one client, and those of other networks
// others; of one address of IPv4 each is its own.
//
// proves H-75
// proves part of X-14
func TestAddresses(t *testing.T) {
	const count = 100_000
	secret := credential.NewSecret()
	a, exact := open(t, Options{Secret: secret}), open(t, Options{Secret: secret, IPv6Bits: 128})
	address := func(i int) string {
		return fmt.Sprintf("[2001:db8:1:2:%x:%x:%x:%x]:443", i*7919%65536, i%65536, i/65536, i*31%65536)
	}
	ids, all := map[string]int{}, map[string]bool{}
	r := request("")
	for i := range count {
		r.RemoteAddr = address(i)
		ids[a.anonymous(a.address(r)).ID]++
		all[exact.anonymous(exact.address(r)).ID] = true
	}
	if len(ids) != 1 {
		t.Errorf("%d clients in one /64", len(ids))
	}
	if len(all) != count {
		t.Errorf("control: %d clients by their whole address", len(all))
	}
	same := func(x, y string) bool { return identify(t, a, x).ID == identify(t, a, y).ID }
	wide := func(x, y string) bool { return identify(t, a, x).Wide == identify(t, a, y).Wide }
	for _, c := range []struct {
		x, y       string
		same, wide bool
	}{
		{"192.0.2.1:1", "192.0.2.1:2", true, true},
		{"192.0.2.1:1", "192.0.2.2:1", false, true},
		{"192.0.2.1:1", "192.0.3.1:1", false, false},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:1", true, true},
		{"[2001:db8:1:2::1]:1", "[2001:db8:1:2:ffff::]:1", true, true},
		{"[2001:db8:1:2::1]:1", "[2001:db8:1:3::1]:1", false, true},
		{"[2001:db8:1:2::1]:1", "[2001:db8:2:2::1]:1", false, false},
		{"[fe80::1%eth0]:1", "[fe80::1%eth1]:1", true, true},
		{"@", "", true, true}, // peers on a unix socket
		{"@", "192.0.2.1:1", false, false},
	} {
		if same(c.x, c.y) != c.same || wide(c.x, c.y) != c.wide {
			t.Errorf("%s and %s: one client %v, one network %v", c.x, c.y, !c.same, !c.wide)
		}
	}
	if c := identify(t, a, "192.0.2.1:1"); strings.Contains(c.ID+c.Wide, "192") && strings.Contains(c.ID, "2.1") || len(c.ID) != 36 {
		t.Error("the address can be read:", c.ID)
	}
}

// shapes are headers of a trusted proxy, each with the client that it stands for: ""
// for the peer. It is long because headers have many shapes.
func shapes() map[string]string {
	const client, proxy = "203.0.113.7", "10.0.0.9"
	all := map[string]string{
		client:                                       client,
		" " + client + "\t":                          client,
		client + ":4711":                             client,
		"1.2.3.4, " + client:                         client,
		"1.2.3.4," + client:                          client,
		client + ", " + proxy:                        client,
		client + ", 10.1.1.1,\t" + proxy:             client,
		"1.2.3.4, " + client + ", " + proxy:          client,
		"::ffff:" + client:                           client,
		"[::ffff:" + client + "]:1":                  client,
		client + ", ::ffff:10.0.0.1":                 client,
		client + ", 172.20.1.1":                      client,
		client + ", 2001:db8:aaaa::1":                client,
		client + ", [2001:db8:aaaa::1]:99":           client,
		"2001:db8:bbbb::1":                           "2001:db8:bbbb::1",
		"[2001:db8:bbbb::1]:443":                     "2001:db8:bbbb::1",
		"2001:db8:bbbb:0:ffff::1":                    "2001:db8:bbbb::1", // the same /64
		proxy:                                        "",
		proxy + ", " + proxy:                         "",
		strings.Repeat(proxy+", ", 31) + proxy:       "",
		client + strings.Repeat(", "+proxy, 31):      client,
		client + strings.Repeat(", "+proxy, 32):      "", // too many hops
		client + strings.Repeat(", "+proxy, 100_000): "",
		strings.Repeat("x", 1<<20) + ", " + client:   client, // what the client says itself
	}
	bad := []string{"", " ", ",", ",,", "-", "unknown", "_hidden", "localhost", "example.com", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "0x7f.0.0.1",
		"2130706433", "127.1", "1.2.3.4/32", "1.2.3.4:", "1.2.3.4:99999", "1.2.3.4:http", "[1.2.3.4]", "[2001:db8::1]", "[2001:db8::1", "2001:db8::1]", "2001:db8:::1",
		"2001:db8::g", "fe80::1%eth0", "[fe80::1%eth0]:1", "0.0.0.0", "::", "255.255.255.255", "224.0.0.1", "ff02::1", "1.2.3.4 5.6.7.8", "1.2.3.4;5.6.7.8",
		"for=1.2.3.4", "\"1.2.3.4\"", "'1.2.3.4'", "1.2.3.4\x00", "\x00", "１.2.3.4", "1.2.3.4\u00a0", "\u20031.2.3.4", "1,2,3,4", "http://1.2.3.4", "1.2.3.4#", "<1.2.3.4>",
		"1.2.3.4\r\nX-Forwarded-For: 5.6.7.8", "%31.2.3.4", "+1.2.3.4", "1.2.3.4.", ".1.2.3.4", "1..3.4", "null", "undefined", "*", "::ffff:0.0.0.0", "::ffff:999.1.1.1",
		"1.2.3.4%25eth0", "2001:db8::1/64", "2001:0db8:0000:0000:0000:0000:0000:0000:0001", "1.2.3.4\n", "1.2.3.4\v", "e80::1%", "[::]:80", "[]:80", ":80", "[:80"}
	for _, b := range bad {
		all[b] = ""
		all[b+", "+proxy] = ""
		all["1.2.3.4, "+b] = ""
		all["1.2.3.4, "+b+", "+proxy] = ""
		all[client+","+proxy+","+b+","+proxy] = ""
		// What is left of the right-most foreign hop decides nothing.
		all[b+", "+client] = client
		all[b+","+client+","+proxy] = client
		all[b+","+b+", "+client] = client
	}
	return all
}

// proves H-75
// proves part of X-14
func TestProxyHeader(t *testing.T) {
	a := behind(t, Options{})
	const peer = "10.0.0.1:55"
	at := func(addr string) string { return a.anonymous(netip.MustParseAddr(addr)).ID }
	all := shapes()
	if len(all) < 500 {
		t.Errorf("%d shapes", len(all))
	}
	for header, want := range all {
		if want == "" {
			want = "10.0.0.1"
		}
		name := header[:min(len(header), 100)]
		if got := identify(t, a, peer, "X-Forwarded-For", header).ID; got != at(want) {
			t.Errorf("%q is not %s", name, want)
		}
		// Who is no trusted proxy says nothing.
		if got := identify(t, a, "198.51.100.1:1", "X-Forwarded-For", header).ID; got != at("198.51.100.1") {
			t.Errorf("%q is believed to a stranger", name)
		}
		if got := identify(t, a, peer, "X-Forwarded-For", header, "X-Forwarded-For", "203.0.113.8").ID; got != at("10.0.0.1") {
			t.Errorf("%q, and once more, is not the peer", name)
		}
		for _, other := range []string{"Forwarded", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Forwarded", "X_forwarded_for"} {
			if got := identify(t, a, peer, other, header).ID; got != at("10.0.0.1") {
				t.Errorf("%s, which is not configured, is read", other)
			}
		}
	}
	// The control: without trust the header is nothing, with it it is.
	plain := open(t, Options{Secret: a.o.Secret})
	if identify(t, plain, peer, "X-Forwarded-For", "203.0.113.7").ID != at("10.0.0.1") || identify(t, a, peer, "X-Forwarded-For", "203.0.113.7").ID != at("203.0.113.7") {
		t.Error("trust decides nothing")
	}
}

// proves part of X-11 X-14 X-18 H-74
func TestAuthorization(t *testing.T) {
	operator, access := credential.Operator.New(), "an-access-token-of-ours"
	a := open(t, Options{OperatorToken: operator})
	private := open(t, Options{OperatorToken: operator, AccessToken: access})
	made, err := a.CreateKey(t.Context(), identify(t, a, "192.0.2.1:1"))
	must(t, err)
	revoked, err := a.CreateKey(t.Context(), identify(t, a, "192.0.2.1:1"))
	must(t, err)
	must(t, a.Revoke(t.Context(), revoked.ID))
	k := made.Key
	for _, bad := range []string{"", "Bearer", "Bearer ", "Bearer  " + k, "Bearer " + k + " ", "Bearer " + k + "0", "Bearer " + k[:len(k)-1], "Bearer " + strings.ToUpper(k),
		"Bearer " + credential.Key.New(), "Bearer " + credential.Owner.New(), "Bearer " + made.ID, "Bearer " + made.WebhookSecret, "Bearer " + revoked.Key, "Bearer gbk_" + strings.Repeat("*", 64),
		"Bearer " + operator + "x", "Bearer " + operator[:20], "Bearer " + access, "Basic " + k, k, "Bearer\t" + k, "Bearer=" + k, "Bearer " + k + "," + k, "Token " + k,
		"Bearer " + strings.Repeat("a", 10_000), "Bearer .*>", "Bearer \x00"} {
		if c, err := a.Identify(request("192.0.2.1:1", "Authorization", bad)); code(t, err) != api.CodeUnauthorized {
			t.Errorf("%q is %+v", bad, c)
		} else if len(bad) > 20 && strings.Contains(err.Error(), bad[8:]) {
			t.Errorf("the secret is in the sentence: %v", err)
		}
	}
	if _, err := a.Identify(request("192.0.2.1:1", "Authorization", "Bearer "+k, "Authorization", "Bearer "+k)); code(t, err) != api.CodeUnauthorized {
		t.Error("twice:", err)
	}
	for _, c := range []struct {
		a             *Admission
		authorization string
		want          string
	}{
		{a, "Bearer " + k, "key-" + made.ID}, {a, "bearer " + k, "key-" + made.ID}, {a, "BEARER " + k, "key-" + made.ID},
		{a, "Bearer " + operator, operatorID}, {private, "Bearer " + operator, operatorID},
	} {
		if got := identify(t, c.a, "192.0.2.9:1", "Authorization", c.authorization); got.ID != c.want {
			t.Errorf("%+v", got)
		}
	}
	if c := identify(t, private, "192.0.2.9:1", "Authorization", "Bearer "+access); c.Kind != Anonymous || !c.Access || c.ID != c.Net {
		t.Errorf("%+v", c)
	}
	for _, headers := range [][]string{{}, {"Authorization", "Bearer " + k}} { // it has another store
		if _, err := private.Identify(request("192.0.2.1:1", headers...)); code(t, err) != api.CodeUnauthorized {
			t.Errorf("a private installation takes %v", headers)
		}
	}
	if c := identify(t, a, "192.0.2.1:1"); c.Kind != Anonymous || c.Access {
		t.Errorf("control: %+v", c)
	}
}

// Secrets are compared by credential.Equal alone, and both tokens whatever comes of the
// first: nowhere in the package one is compared by == or a switch.
//
// proves part of X-11
func TestConstantTime(t *testing.T) {
	secretNames := map[string]bool{"token": true, "hash": true, "OperatorToken": true, "AccessToken": true, "secret": true, "text": true}
	compared := func(src any, file string) (found []string, equals int) {
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, file, src, 0)
		must(t, err)
		name := func(e ast.Expr) string {
			switch e := e.(type) {
			case *ast.Ident:
				return e.Name
			case *ast.SelectorExpr:
				return e.Sel.Name
			}
			return ""
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				lit, ok := n.Y.(*ast.BasicLit)
				if (n.Op == token.EQL || n.Op == token.NEQ) && (secretNames[name(n.X)] || secretNames[name(n.Y)]) && (!ok || lit.Value != `""`) {
					found = append(found, fset.Position(n.Pos()).String())
				}
			case *ast.SwitchStmt:
				if n.Tag != nil && secretNames[name(n.Tag)] {
					found = append(found, fset.Position(n.Pos()).String())
				}
			case *ast.CallExpr:
				if name(n.Fun) == "Equal" {
					equals++
				}
			}
			return true
		})
		return found, equals
	}
	files, err := os.ReadDir(".")
	must(t, err)
	equals := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		found, n := compared(nil, f.Name())
		equals += n
		for _, at := range found {
			t.Error("compared by its bytes:", at)
		}
	}
	if equals < 4 {
		t.Errorf("%d comparisons in constant time", equals)
	}
	for _, src := range []string{"a.o.OperatorToken == token", `token != "x"`, "k.hash == h"} {
		if found, _ := compared("package p\nvar x = "+src+"\n", "x.go"); len(found) != 1 {
			t.Error("control: not seen:", src)
		}
	}
}

func TestRestore(t *testing.T) {
	a := open(t, Options{})
	key := "key-" + credential.KeyID.New()
	for id, kind := range map[string]Kind{identify(t, a, "192.0.2.1:1").ID: Anonymous, key: KeyHolder, "operator": Operator} {
		if c, err := Restore(id); err != nil || c.ID != id || c.Kind != kind {
			t.Errorf("%s: %+v %v", id, c, err)
		}
	}
	for _, id := range []string{"", "root", "key-", "key-x", key + "0", "net-.", "net-*", "operator2", "key-*", "wide-00"} {
		if c, err := Restore(id); err == nil {
			t.Errorf("%s: %+v", id, c)
		}
	}
}

// proves part of X-14
func TestOptionsRefused(t *testing.T) {
	q, secret := newQueue(t, queueOptions()), credential.NewSecret()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for want, o := range map[string]Options{
		"Queue":            {},
		"ProxyHeader":      {Queue: q, Secret: secret, ProxyHeader: "X-Forwarded-For"},
		"ProxyHeader ":     {Queue: q, Secret: secret, Trusted: trusted},
		"ProxyHeader  ":    {Queue: q, Secret: secret, Trusted: trusted, ProxyHeader: "a b"},
		"ProxyHeader   ":   {Queue: q, Secret: secret, Trusted: trusted, ProxyHeader: "forwarded"},
		"Trusted":          {Queue: q, Secret: secret, ProxyHeader: "X-Real-IP", Trusted: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}},
		"Trusted ":         {Queue: q, Secret: secret, ProxyHeader: "X-Real-IP", Trusted: []netip.Prefix{netip.MustParsePrefix("::/0")}},
		"Trusted  ":        {Queue: q, Secret: secret, ProxyHeader: "X-Real-IP", Trusted: []netip.Prefix{{}}},
		"Trusted   ":       {Queue: q, Secret: secret, ProxyHeader: "X-Real-IP", Trusted: []netip.Prefix{netip.MustParsePrefix("::ffff:0.0.0.0/96")}},
		"CoarseIPv4Bits":   {Queue: q, Secret: secret, IPv4Bits: 16},
		"CoarseIPv6Bits":   {Queue: q, Secret: secret, IPv6Bits: 32},
		"IPv6Bits":         {Queue: q, Secret: secret, IPv6Bits: 129},
		"RunsPerHour":      {Queue: q, Secret: secret, RunsPerHour: -1},
		"KeyRunsPerHour":   {Queue: q, Secret: secret, KeyRunsPerHour: 2001},
		"CoarseFactor":     {Queue: q, Secret: secret, RunsPerHour: 2000},
		"WaitsPerClient":   {Queue: q, Secret: secret, WaitsPerClient: 256},
		"SocketsPerClient": {Queue: q, Secret: secret, SocketsPerClient: 1000},
		"OperatorToken":    {Queue: q, Secret: secret, OperatorToken: "short"},
		"AccessToken":      {Queue: q, Secret: secret, AccessToken: "with a space in it"},
		"AccessToken ":     {Queue: q, Secret: secret, AccessToken: "the-same-token-twice", OperatorToken: "the-same-token-twice"},
		"KeyTTL":           {Queue: q, Secret: secret, KeyTTL: 1},
	} {
		a, err := Open(t.Context(), o)
		if err == nil {
			a.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), strings.TrimSpace(want)+": ") {
			t.Errorf("%s: %v", want, err)
		}
		if err != nil && (strings.Contains(err.Error(), "short") || strings.Contains(err.Error(), "the-same")) {
			t.Error("a token in the sentence:", err)
		}
	}
	a, err := Open(t.Context(), Options{Queue: q, Secret: secret, ProxyHeader: "x-real-ip", Trusted: trusted}) // the control
	must(t, err)
	defer a.Close()
	if a.o.ProxyHeader != http.CanonicalHeaderKey("X-Real-IP") || a.o.InFlight != 8 || a.o.SocketsPerRun != 10 || a.o.RunsPerHour != 20 || a.o.KeyRunsPerHour != 200 ||
		a.o.KeysPerHour != 5 || a.o.KeyTTL != 90*day || a.o.Quotas {
		t.Errorf("not the contract's defaults: %+v", a.o)
	}
}
