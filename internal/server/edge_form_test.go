package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/api"
	"github.com/glovebox-dev/glovebox/internal/credential"
	"github.com/glovebox-dev/glovebox/internal/server"
)

// An owner's token, a key and an Idempotency-Key have one form, and what has another
// one, or belongs to another, opens nothing.
//
// proves part of X-08
// proves part of H-72
func TestTokensAsRoot(t *testing.T) {
	s := shared(t)
	run, other := s.cat(t), s.cat(t)
	owner := run.OwnerToken
	for _, e := range server.Endpoints() {
		if !e.Owner {
			continue
		}
		path := strings.ReplaceAll(e.Path, "{id}", run.ID)
		for token, want := range map[string]int{
			"": 403, other.OwnerToken: 403, strings.ToUpper(owner): 403, owner + "0": 403, owner[:len(owner)-1]: 403, owner[4:]: 403, "Bearer " + owner: 403, "gbo_*": 403, ">": 403,
			credential.Owner.New(): 403, owner + "," + owner: 403, operator: 403,
		} {
			var body any
			if e.Reads {
				body = map[string]string{}
			}
			if a := s.ask(t, e.Method, path, body, server.OwnerHeader, token); a.StatusCode != want {
				t.Errorf("%s with %q: %d %s", e.Pattern(), token, a.StatusCode, a.body)
			}
		}
		if a := s.ask(t, e.Method, path, nil); a.StatusCode != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s without a token: %d %s", e.Pattern(), a.StatusCode, a.body)
		}
	}
	if a := s.ask(t, "POST", "/v1/runs/"+run.ID+"/signal", api.SignalBody{Name: "SIGCONT"}, server.OwnerHeader, owner); a.StatusCode != http.StatusAccepted {
		t.Errorf("control: %d %s", a.StatusCode, a.body)
	}
	key := s.key(t).Key
	for _, value := range []string{"Bearer", "Bearer ", "Basic " + key, key, "Bearer " + key + "0", "Bearer " + strings.ToUpper(key), "Bearer gbk_*", "Bearer >", "Bearer " + credential.Key.New(), "Bearer " + owner, "Bearer " + key + " x"} {
		if a := s.ask(t, "GET", "/v1/limits", nil, "Authorization", value); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("Authorization %q: %d %s", value, a.StatusCode, a.body)
		}
	}
	if a := s.ask(t, "GET", "/v1/limits", nil, "Authorization", "Bearer "+key); a.StatusCode != http.StatusOK {
		t.Errorf("control: %d %s", a.StatusCode, a.body)
	}
	for _, value := range []string{"", "short", strings.Repeat("x", 65), "0123456789abcde*", "0123456789abcde.", "0123456789abcde>", "0123456789 abcdef", "0123456789abcdeé", "../../0123456789abcdef"} {
		if a := s.ask(t, "POST", "/v1/runs", accepted, server.IdempotencyHeader, value); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s %q: %d %s", server.IdempotencyHeader, value, a.StatusCode, a.body)
		}
	}
	for _, value := range []string{"*", ">", "-1", "01", "1e3", "18446744073709551616", "x", "999999"} {
		if a := s.ask(t, "GET", "/v1/runs/"+run.ID+"/events", nil, server.LastEventHeader, value); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s %q: %d %s", server.LastEventHeader, value, a.StatusCode, a.body)
		}
	}
}

// Every limit that a submission names is held against its bounds, and what is outside
// is refused by name.
//
// proves part of X-07
func TestLimitsByName(t *testing.T) {
	s := shared(t)
	floors, ceilings := reflect.ValueOf(api.MinLimits()), reflect.ValueOf(api.ServiceMaxLimits(runtime.NumCPU()))
	checked := 0
	for f := range floors.Type().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type.Kind() != reflect.Int64 {
			continue
		}
		checked++
		low, high := floors.FieldByName(f.Name).Int(), ceilings.FieldByName(f.Name).Int()
		bad := []string{fmt.Sprint(high + 1), "-1", "1.5", `"1"`, "1e3", "99999999999999999999", "true", "[1]", "NaN"}
		if low > 1 {
			bad = append(bad, fmt.Sprint(low-1))
		}
		for _, value := range bad {
			a := s.ask(t, "POST", "/v1/runs", fmt.Sprintf(`{"command":["/bin/true"],"limits":{%q:%s}}`, name, value))
			var e api.ErrorBody
			if err := json.Unmarshal(a.body, &e); err != nil || a.StatusCode != http.StatusBadRequest || e.Error.Code != api.CodeBadField || value != "NaN" && e.Error.Field != "limits."+name {
				t.Errorf("%s %s: %d %s", name, value, a.StatusCode, a.body)
			}
		}
		if a := s.ask(t, "POST", "/v1/runs?wait=20s", fmt.Sprintf(`{"command":["/bin/true"],"limits":{%q:%d}}`, name, high)); a.StatusCode >= 300 {
			t.Errorf("control: %s %d: %d %s", name, high, a.StatusCode, a.body)
		}
	}
	if checked != 11 {
		t.Errorf("%d limits, not 11", checked)
	}
}
