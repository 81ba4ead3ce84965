package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// directives reads a unit: the values of each directive.
func directives(t *testing.T, path string) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '[' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Fatalf("%s: %q is no directive", path, line)
		}
		out[name] = append(out[name], value)
	}
	return out
}

// The unit has what the service needs of systemd and none of what breaks cells, and
// docs/runbook.md says why of each; no systemd is asked.
//
// proves part of H-17
func TestServiceUnit(t *testing.T) {
	unit := directives(t, "../../packaging/glovebox.service")
	for name, want := range map[string]string{
		"Type": "notify", "User": "glovebox", "Group": "glovebox", "Delegate": "yes", "OOMPolicy": "continue", "KillMode": "mixed", "StateDirectory": "glovebox",
		"StateDirectoryMode": "0700", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "AmbientCapabilities": "", "ProtectSystem": "strict", "ProtectHome": "yes",
		"PrivateTmp": "yes", "UMask": "0077", "LimitCORE": "1", "RestartPreventExitStatus": "2 4", "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
	} {
		if got := unit[name]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	book, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"RestrictNamespaces", "ProtectControlGroups", "ProtectHostname", "ProcSubset", "RestrictSUIDSGID", "SystemCallFilter", "PrivateDevices",
		"ProtectKernelModules", "ProtectKernelTunables", "ProtectKernelLogs", "MemoryDenyWriteExecute", "PrivateNetwork", "SupplementaryGroups"} {
		if got, has := unit[name]; has {
			t.Errorf("%s=%s breaks cells, or gives them more", name, got)
		}
		if name != "SupplementaryGroups" && !strings.Contains(string(book), "`"+name+"=") {
			t.Errorf("docs/runbook.md does not say why %s is off", name)
		}
	}
	users, err := os.ReadFile("../../packaging/glovebox.sysusers")
	if err != nil || !strings.Contains(string(users), "\nu glovebox - ") {
		t.Errorf("no user: %v", err)
	}
}
