package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/agent"
	"github.com/glovebox-dev/glovebox/agent/store"
)

// tenants are names by the hashes of their tokens: a comparison of hashes tells
// nobody how much of a token was right.
type tenants map[[sha256.Size]byte]string

func tenantsIn(path string) (tenants, error) {
	text, err := os.ReadFile(path)
	all := tenants{}
	for line := range strings.Lines(string(text)) {
		name, token, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || name == "" || len(token) < 16 {
			return nil, errors.New("tokens: a line must be TENANT TOKEN, the token of 16 characters at least")
		}
		all[sha256.Sum256([]byte(token))] = name
	}
	return all, err
}

// handler feeds the body of a request to the tenant's conversation, and answers with
// what came of it.
func handler(pool *agent.Pool, known tenants) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /conversations/{id}", func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		tenant := known[sha256.Sum256([]byte(token))]
		if tenant == "" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		code, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		if err != nil {
			http.Error(w, "at most 64 KiB", http.StatusRequestEntityTooLarge)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
		defer cancel()
		// The owner is who was authenticated; the id may be anything that he likes.
		answer, err := feed(ctx, pool, store.Key{Owner: tenant, ID: r.PathValue("id")}, string(code))
		switch {
		case errors.Is(err, store.ErrBusy), errors.Is(err, agent.SessionBudget):
			http.Error(w, "too much at one time", http.StatusTooManyRequests)
		case err != nil:
			http.Error(w, "it did not run", http.StatusInternalServerError)
		default:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer)
		}
	})
	return mux
}

// feed takes the session, which waits for another request of the same conversation,
// and gives it back.
func feed(ctx context.Context, pool *agent.Pool, key store.Key, code string) (answer any, err error) {
	session, err := pool.Acquire(ctx, key, agent.AcquireOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Release()) }()
	return session.Execute(ctx, code, agent.FeedOptions{})
}
