package telemetry_test

import (
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/telemetry"
)

// TestAttackAuditFlood: requests of nobody, as many as come, neither keep what is done
// out of the log nor push what was done out of its files soon.
//
// proves part of H-85
func TestAttackAuditFlood(t *testing.T) {
	o := auditOptions(t)
	now := time.Unix(1e9, 0)
	o.Now = func() time.Time { return now }
	a := openAudit(t, o)
	flood := map[string]int{}
	for range 10 { // seconds
		for _, kind := range []string{telemetry.EntryDenied, telemetry.EntryRefused} {
			for range 2000 {
				if a.Append(t.Context(), telemetry.Entry{Kind: kind}) == nil {
					flood[kind]++
				}
			}
		}
		for _, kind := range []string{telemetry.EntryAccepted, telemetry.EntryKey, telemetry.EntryRevoked} {
			if err := a.Append(t.Context(), telemetry.Entry{Kind: kind}); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
		}
		now = now.Add(time.Second)
	}
	must(t, a.Close())
	if n := flood[telemetry.EntryDenied] + flood[telemetry.EntryRefused]; n < 100 || n > 700 {
		t.Errorf("of 40,000 in ten seconds %d are in the log", n)
	}
	if _, _, err := telemetry.VerifyAudit(o.Dir, o.Hasher); err != nil {
		t.Error(err)
	}
}
