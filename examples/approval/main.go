// Command approval shows a call that waits for a person while no program runs:
//
//	approval start DIR          a model's code runs up to a payment, and waits; the program ends
//	approval show DIR           what the payment is, and the hash that a person approves
//	approval resume DIR HASH    hours later, anywhere: the payment is made and the code goes on
//
// The session lives in a store in DIR. A hash that is not that of the call, of this
// session and with these arguments, pays nothing.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/agent/store"
)

// code is what the model wrote. It cannot tell that it was stopped for a night.
const code = `
	const before = await accounts.balance("rent");
	const receipt = await payments.send("Landlord Ltd", 125000);
	({receipt, before, after: await accounts.balance("rent")})`

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: approval start|show|resume DIR [HASH]")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Args[2], append(os.Args[3:], "")[0]); err != nil {
		fmt.Fprintln(os.Stderr, "approval:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, command, dir, hash string) error {
	keys, err := keysIn(dir)
	if err != nil {
		return err
	}
	kept, err := store.NewFile(filepath.Join(dir, "sessions"), store.FileOptions{})
	if err != nil {
		return err
	}
	defer kept.Close()
	pool, err := agent.Open(ctx, agent.Options{Store: kept, Keys: keys})
	if err != nil {
		return err
	}
	defer pool.Close()
	catalog, err := agent.NewCatalog((&bank{dir}).tools(), agent.CatalogOptions{})
	if err != nil {
		return err
	}
	key := store.Key{Owner: "tenant 7", ID: "rent of May"}
	session, err := pool.Acquire(ctx, key, agent.AcquireOptions{Tools: catalog, MustExist: command != "start"})
	if err != nil {
		return err
	}
	defer session.Release()
	switch command {
	case "start":
		_, err = session.Start(ctx, code, agent.FeedOptions{RunTools: true}) // all tools but those with Approve
		return err
	case "show":
		step := session.Step()
		if step == nil {
			return errors.New("nothing waits")
		}
		for _, c := range step.Calls {
			fmt.Printf("%s(%s)\napproval %s\n", c.Tool, agent.ShowArguments(c.Args), c.Approval)
		}
		return nil
	case "resume":
		return resume(ctx, session, hash)
	}
	return errors.New("no such command")
}

// resume makes the payment, if it is the one that was approved, and answers what
// the code asks for after it. Another payment would need another approval.
func resume(ctx context.Context, session *agent.Session, hash string) (err error) {
	step := session.Step()
	if step == nil {
		return errors.New("nothing waits")
	}
	for ; !step.Done; hash = "" {
		if step, err = session.Resume(ctx, agent.Reply{Call: step.Calls[0].ID, Run: true, Approval: hash}); err != nil {
			return err
		}
	}
	text, err := step.Result.Value.MarshalJSON()
	fmt.Printf("result: %s\n", text)
	return err
}

// keysIn has the key of the journals. A service has it from where its secrets are.
func keysIn(dir string) (*agent.Keys, error) {
	path := filepath.Join(dir, "key")
	key, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		key = make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		err = os.WriteFile(path, key, 0o600)
	}
	return &agent.Keys{Current: "1", Roots: map[string][]byte{"1": key}}, err
}
