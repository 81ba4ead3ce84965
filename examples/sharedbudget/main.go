// Command sharedbudget shows one budget that a JavaScript session and a Python
// program draw from.
//
// They do so in different ways, since a program in a cell cannot call its host. The
// session calls a tool whenever it likes, and each call is one unit. The Python
// program gets what it will need before it begins, one unit each, and is charged for
// what it gives back, a unit for each line, when it has ended. Where the budget has
// not enough for that, its output is withheld: the work was done all the same.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox"
	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/js"
)

// budget is shared by everything that runs for one customer.
type budget struct {
	mu   sync.Mutex
	left int
}

var errSpent = &js.GuestError{Name: "BudgetError", Message: "the budget is used up"}

// take takes all units or none.
func (b *budget) take(units int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if units > b.left {
		return errSpent
	}
	b.left -= units
	return nil
}

var rates = map[string]float64{"USD": 1.0850, "GBP": 0.8525, "JPY": 169.75, "CHF": 0.9690}

// rate is what costs: one unit for each currency.
func (b *budget) rate(currency string) (float64, error) {
	if err := b.take(1); err != nil {
		return 0, err
	}
	return rates[currency], nil
}

const python = `
import sys
for line in sys.stdin:
    name, rate = line.split()
    print(name, round(100 / float(rate), 2))
`

func main() {
	if err := run(context.Background(), &budget{left: 9}); err != nil {
		fmt.Fprintln(os.Stderr, "sharedbudget:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, b *budget) error {
	catalog, err := agent.NewCatalog([]agent.Tool{{Name: "rate", Params: []string{"currency"}, Func: b.rate, Description: "What a euro is worth."}}, agent.CatalogOptions{})
	if err != nil {
		return err
	}
	pool, err := agent.Open(ctx, agent.Options{})
	if err != nil {
		return err
	}
	defer pool.Close()
	session, err := pool.Checkout(ctx, agent.SessionOptions{Tools: catalog})
	if err != nil {
		return err
	}
	defer session.Close()
	box, err := glovebox.New(glovebox.Options{})
	if err != nil {
		return err
	}
	defer box.Close()

	feed(ctx, b, session, `(await rate("USD")) * 200 + (await rate("GBP")) * 10`)
	if err := inPython(ctx, b, box, "USD", "JPY"); err != nil {
		return err
	}
	feed(ctx, b, session, `let seen = []; for (const c of ["USD", "GBP", "JPY", "CHF"]) seen.push(await rate(c))`)
	feed(ctx, b, session, `seen.length`)
	return inPython(ctx, b, box, "CHF")
}

// feed has the session run code.
func feed(ctx context.Context, b *budget, s *agent.Session, code string) {
	result, err := s.Feed(ctx, code, agent.FeedOptions{})
	if err != nil {
		fmt.Printf("javascript: %v; %d left\n", err, b.left)
		return
	}
	fmt.Printf("javascript: %v; %d left\n", result.Value, b.left)
}

// inPython runs the Python program with the rates of some currencies.
func inPython(ctx context.Context, b *budget, box *glovebox.Box, currencies ...string) error {
	var in strings.Builder
	for _, c := range currencies {
		r, err := b.rate(c)
		if errors.Is(err, errSpent) {
			fmt.Printf("python: not run: %v; %d left\n", err, b.left)
			return nil
		}
		fmt.Fprintln(&in, c, r)
	}
	result, err := box.Run(ctx, glovebox.Program{Language: "python", Source: python, Stdin: []byte(in.String())})
	if err != nil {
		return err
	}
	if err := b.take(strings.Count(result.Stdout, "\n")); err != nil {
		fmt.Printf("python: output withheld: %v; %d left\n", err, b.left)
		return nil
	}
	fmt.Printf("python: %s %q; %d left\n", result.Verdict, result.Stdout, b.left)
	return nil
}
