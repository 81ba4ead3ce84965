package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/glovebox-dev/glovebox/agent"
)

// opening is what the account had before any payment, in cents.
const opening = 200_000

// bank keeps its payments in a file, one a line.
type bank struct{ dir string }

func (b *bank) tools() []agent.Tool {
	return []agent.Tool{
		{Name: "accounts.balance", Params: []string{"account"}, Func: b.balance, Description: "What an account has, in cents."},
		{Name: "payments.send", Params: []string{"to", "cents"}, Func: b.send, Description: "Pays. A person approves each payment.", Approve: true},
	}
}

func (b *bank) balance(string) (int, error) {
	file, err := os.Open(filepath.Join(b.dir, "payments"))
	if errors.Is(err, os.ErrNotExist) {
		return opening, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	left := opening
	for {
		var key string
		var cents int
		if n, _ := fmt.Fscanf(file, "%s %d\n", &key, &cents); n != 2 {
			return left, nil
		}
		left -= cents
	}
}

// send pays once for each call, however often it is run: the call's key says which.
func (b *bank) send(ctx context.Context, to string, cents int) (receipt string, err error) {
	call, _ := agent.CallOf(ctx)
	file, err := os.OpenFile(filepath.Join(b.dir, "payments"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer file.Close()
	_, err = fmt.Fprintf(file, "%s %d\n", call.Key, cents)
	return fmt.Sprintf("paid %d to %s", cents, to), err
}
