package redteam

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/cell"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// On a host that lacks a layer the command fires nothing. What auto runs there is
// attacked here: every attack that another layer stops is stopped, and its
// control gets through. The package matrix reads the line of the report, and
// picks attacks with GLOVEBOX_TEST_ATTACKS.
//
// proves part of T-16
func TestOnVMDegraded(t *testing.T) {
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if all, err = pick(all, os.Getenv("GLOVEBOX_TEST_ATTACKS")); err != nil {
		t.Fatal(err)
	}
	r, err := open(testenv.Init(), cell.Auto)
	if err != nil {
		t.Fatal(err)
	}
	if r.whole.Status().Complete {
		t.Error("every layer holds on this host")
	}
	report, err := r.fireAll(t.Context(), all, func(row Row) {
		if row.NotFired == "" && !row.Good() {
			t.Errorf("%s: stopped %v, control got through %v: %s", row.Attack, row.Stopped, row.Through, row.Reason)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if report.Attacks == 0 {
		t.Error("no attack was fired")
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("redteam: %s\n", text)
}
