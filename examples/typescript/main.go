// Command typescript shows a session that is fed TypeScript: the types are taken
// away in a sealed worker of its own, and what was made JavaScript is what runs, and
// what a gate would judge. Types are not checked.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/js"
)

// reading is what the tool gives; the guest gets an object of it.
type reading struct {
	Sensor  string  `json:"sensor"`
	Celsius float64 `json:"celsius"`
}

var readings = []reading{{"roof", 31.5}, {"cellar", 12.25}, {"roof", 35}, {"hall", 21}, {"cellar", 11.75}, {"roof", 28}}

// feeds are typed one after the other; what one declares the next one has.
var feeds = []string{`
	interface Reading { sensor: string; celsius: number }
	enum Level { Cold = "cold", Mild = "mild", Hot = "hot" }
	function group<T, K>(all: readonly T[], key: (one: T) => K): Map<K, T[]> {
		const out = new Map<K, T[]>();
		for (const one of all) out.set(key(one), [...(out.get(key(one)) ?? []), one]);
		return out;
	}
	const level = (celsius: number): Level => celsius < 15 ? Level.Cold : celsius < limit ? Level.Mild : Level.Hot;`, `
	const all: Reading[] = await readings();
	const report: Record<string, { mean: number, level: Level }> = {};
	for (const [sensor, some] of group(all, r => r.sensor)) {
		const mean = some.reduce((sum, r) => sum + r.celsius, 0) / some.length;
		report[sensor] = { mean, level: level(mean) };
	}
	report`,
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "typescript:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	catalog, err := agent.NewCatalog([]agent.Tool{
		{Name: "readings", Description: "All readings of today.", Func: func() []reading { return readings }},
	}, agent.CatalogOptions{})
	if err != nil {
		return err
	}
	fmt.Println(catalog.TypeScript()) // the declarations that a model writes its code against
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
	for _, code := range feeds {
		result, err := session.Feed(ctx, code, agent.FeedOptions{Syntax: js.TypeScript, Inputs: map[string]any{"limit": 30}})
		if err != nil {
			return err
		}
		if text, err := result.Value.MarshalJSON(); err == nil {
			fmt.Println("result:", string(text))
		}
	}
	return nil
}
