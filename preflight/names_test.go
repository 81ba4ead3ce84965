package preflight

import "testing"

// What other hosts have and a guest has not is found where it would fail, and a
// text that asks for it, declares it or is given it is in order.
//
// proves part of P-04
func TestAbsent(t *testing.T) {
	for source, want := range map[string]string{
		"structuredClone(a)":                                     "1:1 absent",
		"new TextEncoder().encode('a')":                          "1:5 absent",
		"new TextEncoder":                                        "1:5 absent",
		"performance.now()":                                      "1:1 absent",
		"crypto?.subtle; crypto['subtle']":                       "1:1 absent, 1:17 absent",
		"class A extends EventTarget {}":                         "1:17 absent",
		"globalThis.structuredClone(a)":                          "1:12 absent",
		"window.localStorage; self['performance']":               "1:8 absent, 1:27 absent",
		"globalThis.performance = { now: () => 0 }":              "",
		"typeof structuredClone; typeof performance === 'a'":     "",
		"a.performance.now(); ({ performance: 1, URL() {} })":    "",
		"const { performance } = tools; performance.now()":       "",
		"const URL = tools.URL; new URL('a')":                    "",
		"f(performance); [URL]; 'performance.now()'; `URL.a`":    "",
		"function f(document) { return document.title }":         "",
		"event.target; name.length; location.href; module.a":     "", // common names of variables
		"await f(); return 1":                                    "",
		"setTimeout(f, 1); Intl.a; console.log(1); escape('a')":  "",
		"class A { performance() {} static URL = 1 }; x = { a }": "",
	} {
		if got := short(Check(source, Options{})); got != want {
			t.Errorf("%q: %s, want %s", source, got, want)
		}
	}
	if r := Check("structuredClone(1); performance.a", Options{Bound: []string{"structuredClone", "performance"}}); len(r.Findings) > 0 {
		t.Error(r)
	}
	if m := Check("structuredClone(1)", Options{}).Findings[0].Message; m != "structuredClone exists in browsers or Node.js and not here; bind a function of the host, or write what it does." {
		t.Error(m)
	}
}

// await and return at the top are found where the text is to run as a script.
//
// proves part of P-04
func TestTopLevel(t *testing.T) {
	for source, want := range map[string]string{
		"await a":                           "1:1 top-level",
		"x = await (a)":                     "1:5 top-level",
		"if (a) { await b }":                "1:10 top-level",
		"for (const x of [1]) { await x }":  "1:24 top-level",
		"return 1":                          "1:1 top-level",
		"{ return }":                        "1:3 top-level",
		"`${await a}`":                      "1:4 top-level",
		"async () => { await a; return 1 }": "",
		"async () => await a":               "",
		"async function f() { await a }":    "",
		"function f() { return 1 }":         "",
		"() => { return 1 }":                "",
		"a => { { return 1 } }":             "",
		"({ async f() { await a }, get g() { return 1 } })": "",
		"class A { async f() { await a } }":                 "",
		"(async () => { await a })()":                       "",
		"x = await; await = 1; await + 1; f(await)":         "", // a name in a script
		"a.await(b); ({ await: 1, return: 2 }); a.return":   "",
		"'await a'; // return":                              "",
	} {
		if got := short(Check(source, Options{Script: true})); got != want {
			t.Errorf("%q: %s, want %s", source, got, want)
		}
		if r := Check(source, Options{}); len(r.Findings) > 0 {
			t.Errorf("%q: %s", source, r)
		}
		if r := Check(source, Options{Script: true, AllowImport: true}); len(r.Findings) > 0 {
			t.Errorf("%q in a module: %s", source, r)
		}
	}
}
