// Command codemode shows code mode. A model is told which functions there are, and
// answers with JavaScript that calls them: three tools of this program, and no more
// often than their budget allows. The answers of the model stand below, so that
// nothing is asked for over a network.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/glovebox-dev/glovebox/agent"
)

//go:embed orders.json
var data []byte

// order is one line of orders.json.
type order struct {
	ID     string `json:"id"`
	Region string `json:"region"`
	Cents  int    `json:"cents"`
	Paid   bool   `json:"paid"`
}

// answers are what a model wrote when it was given the prompt.
var answers = []string{`
	const open = [];
	for (const id of await orders.list("north")) {
		const o = await orders.get(id);
		if (!o.paid) open.push(o.cents);
	}
	({open: open.length, cents: await sum(...open)})`, `
	let looked = 0;
	for (;;) {
		await orders.get("s1");
		looked++;
	}`, `
	"looked " + looked + " times"`,
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "codemode:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var all []order
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	catalog, err := agent.NewCatalog(tools(all), agent.CatalogOptions{})
	if err != nil {
		return err
	}
	pool, err := agent.Open(ctx, agent.Options{}) // glovebox-init and glovebox-js lie beside this program
	if err != nil {
		return err
	}
	defer pool.Close()
	session, err := pool.Checkout(ctx, agent.SessionOptions{Tools: catalog})
	if err != nil {
		return err
	}
	fmt.Println(catalog.Prompt())
	for _, code := range answers {
		result, err := session.Feed(ctx, code, agent.FeedOptions{})
		if result == nil {
			return err // nothing ran
		}
		if err != nil {
			fmt.Println("error:", err) // what a model would be told
		} else {
			text, _ := result.Value.MarshalJSON()
			fmt.Println("result:", string(text))
		}
	}
	fmt.Println("usage:", session.Usage())
	return session.Close()
}

// tools are what the model's code may call. Any Go function is a tool.
func tools(all []order) []agent.Tool {
	list := func(region string) []string {
		var ids []string
		for _, o := range all {
			if o.Region == region {
				ids = append(ids, o.ID)
			}
		}
		return ids
	}
	get := func(id string) (order, error) {
		for _, o := range all {
			if o.ID == id {
				return o, nil
			}
		}
		return order{}, errors.New("no such order")
	}
	sum := func(numbers ...int) (total int) {
		for _, n := range numbers {
			total += n
		}
		return total
	}
	return []agent.Tool{
		{Name: "orders.list", Params: []string{"region"}, Func: list, Description: "The ids of a region's orders."},
		{Name: "orders.get", Params: []string{"id"}, Func: get, Description: "One order.", MaxCalls: 10},
		{Name: "sum", Params: []string{"numbers"}, Func: sum, Description: "Adds whole numbers."},
	}
}
