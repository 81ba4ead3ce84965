package agent_test

import (
	"context"
	"fmt"

	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/internal/testenv"
)

// The example of the README.
func Example() {
	ctx := context.Background()
	prices := map[string]int{"tea": 4, "milk": 3}
	priceOf := func(item string) int { return prices[item] }

	tools, err := agent.NewCatalog([]agent.Tool{{Name: "price", Params: []string{"item"}, Func: priceOf, MaxCalls: 10}}, agent.CatalogOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pool, err := agent.Open(ctx, agent.Options{InitPath: testenv.Init(), WorkerPath: testenv.Worker()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = pool.Close() }()
	session, err := pool.Checkout(ctx, agent.SessionOptions{Tools: tools})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := session.Feed(ctx, `const p = await Promise.all(["tea", "milk"].map(i => price(i))); p[0] + p[1]`, agent.FeedOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Value, session.Usage().Calls)
	// Output: 7 2
}
