package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// TestSharedBudgetAsRoot: what both sides compute is what Go computes, and the units
// that are left are those that nine less each side's own come to.
//
// proves part of T-15
func TestSharedBudgetAsRoot(t *testing.T) {
	cents := func(currency string) float64 { return math.Round(100/rates[currency]*100) / 100 }
	want := fmt.Sprintf("javascript: %v; %d left\n", rates["USD"]*200+rates["GBP"]*10, 9-2) +
		fmt.Sprintf("python: ok %q; %d left\n", fmt.Sprintf("USD %v\nJPY %v\n", cents("USD"), cents("JPY")), 9-2-2-2) +
		"javascript: js: BudgetError: the budget is used up; 0 left\n" +
		fmt.Sprintf("javascript: %d; 0 left\n", 9-2-2-2) +
		"python: not run: the budget is used up; 0 left\n"
	if got := testenv.Output(t, testenv.Built(t, "./examples/sharedbudget")); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
