package gateway_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/model/usage"
)

func TestUsage(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	d.backend.Spent = func(by usage.Key, since time.Time) ([]usage.Sum, error) {
		if since.Year() == 1999 {
			return nil, errors.New("too long ago")
		}
		return []usage.Sum{{Key: string(by), Calls: 2, Input: 10, Cost: int64(since.Year()) * 1e9}}, nil
	}
	for name, c := range map[string]struct {
		query string
		token string
		code  int
		want  string
	}{
		"all":           {"", "TOKEN", 200, `[{"key":"all","calls":2,"failed":0,"input":10,"output":0,"cache_read":0,"cache_write":0,"cost_usd":1}]`},
		"by and since":  {"?by=sender&since=2026-03-01T00:00:00Z", "TOKEN", 200, `"key":"sender","calls":2,"failed":0,"input":10,"output":0,"cache_read":0,"cache_write":0,"cost_usd":2026`},
		"no such key":   {"?by=cost", "TOKEN", 422, "all, sender, agent"},
		"no such time":  {"?since=yesterday", "TOKEN", 422, "query.since"},
		"without token": {"", "wrong", 401, ""},
		"trouble":       {"?since=1999-01-01T00:00:00Z", "TOKEN", 503, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, body := d.ask(request{method: http.MethodGet, path: "/api/v1/usage" + c.query, header: map[string]string{"Authorization": "Bearer " + c.token}})
			if code != c.code || !strings.Contains(body, c.want) {
				t.Errorf("answer is %d %s", code, body)
			}
		})
	}
}

func TestHeld(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	d.backend.Holds = []gateway.Held{{Sender: "irc:a\x1b", Sessions: 1, Bytes: 2, Snapshots: 7, Media: 3, Sandboxes: 4, Processes: 5, HostProcesses: 6}}
	for token, want := range map[string]string{
		"TOKEN": `[{"sender":"irc:a\u001b","sessions":1,"bytes":2,"snapshots":7,"media":3,"sandboxes":4,"processes":5,"host_processes":6}]`, "wrong": "unauthorized",
	} {
		_, _, body := d.ask(request{method: http.MethodGet, path: "/api/v1/usage/held", header: map[string]string{"Authorization": "Bearer " + token}})
		if !strings.Contains(body, want) {
			t.Errorf("with %s the answer is %s", token, body)
		}
	}
}
