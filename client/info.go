package client

import (
	"context"
	"net/url"

	"github.com/glovebox-dev/glovebox/api"
)

// Languages are those that the service's host has.
func (c *Client) Languages(ctx context.Context) ([]api.Language, error) {
	var list api.LanguageList
	err := c.get(ctx, "/v1/languages", &list)
	return list.Languages, err
}

// Limits are what a submission may ask for, and what this client may do and has done.
// Asking costs nothing of that.
func (c *Client) Limits(ctx context.Context) (*api.LimitsInfo, error) {
	return got[api.LimitsInfo](ctx, c, "GET", "/v1/limits", false)
}

// Status is what the service's host enforces, and how busy it is. The details of the
// layers are the operator's.
func (c *Client) Status(ctx context.Context) (*api.ServiceStatus, error) {
	return got[api.ServiceStatus](ctx, c, "GET", "/v1/status", false)
}

// CreateKey makes an API key. The answer has it and its webhook secret, and nothing
// ever has them again. It is not repeated where a key may have been made and the
// answer lost.
func (c *Client) CreateKey(ctx context.Context) (*api.KeyInfo, error) {
	k, err := got[api.KeyInfo](ctx, c, "POST", "/v1/keys", true)
	if err == nil && !isSecret("gbk_", k.Key) {
		return nil, answerErrorf("a key that was made is in it")
	}
	return k, err
}

// Key is what the service knows of this client's key, and how much of its quota is used.
func (c *Client) Key(ctx context.Context) (*api.KeyInfo, error) {
	return got[api.KeyInfo](ctx, c, "GET", "/v1/keys/self", false)
}

// RevokeKey ends this client's key.
func (c *Client) RevokeKey(ctx context.Context) error {
	return c.do(ctx, &call{method: "DELETE", path: "/v1/keys/self", patience: c.o.Patience}, nil)
}

// Keys are all keys that live, for the operator.
func (c *Client) Keys(ctx context.Context) ([]api.KeyInfo, error) {
	var list api.KeyList
	err := c.get(ctx, "/v1/keys", &list)
	return list.Keys, err
}

// RevokeKeyID ends the key with a public id, for the operator.
func (c *Client) RevokeKeyID(ctx context.Context, id string) error {
	return c.do(ctx, &call{method: "DELETE", path: "/v1/keys/" + url.PathEscape(id), patience: c.o.Patience}, nil)
}

func (c *Client) get(ctx context.Context, path string, v any) error {
	return c.do(ctx, &call{method: "GET", path: path, patience: c.o.Patience}, v)
}

// got asks for a T.
func got[T any](ctx context.Context, c *Client, method, path string, once bool) (*T, error) {
	v := new(T)
	if err := c.do(ctx, &call{method: method, path: path, once: once, patience: c.o.Patience}, v); err != nil {
		return nil, err
	}
	return v, nil
}
