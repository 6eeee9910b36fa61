package gateway_test

import (
	"context"
	"errors"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
)

// reloads puts a new generation in force, or refuses it.
type reloads struct {
	generation uint64
	refuses    error
}

func (r *reloads) Reload(ctx context.Context, _ string) (gateway.Reloaded, error) {
	if _, ok := ctx.Deadline(); !ok {
		return gateway.Reloaded{}, errors.New("the reload has no deadline")
	}
	if r.refuses == nil {
		r.generation++
	}
	return gateway.Reloaded{Generation: r.generation}, r.refuses
}

func TestReloadOverHTTP(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	d.stop()
	r := &reloads{generation: 1}
	d.front.Reloads = r
	d.start()
	auth := map[string]string{"Authorization": "Bearer TOKEN", "Content-Type": jsonType}
	for _, tt := range []struct {
		name, method, body string
		header             map[string]string
		refuses            error
		status             int
		answer             string // empty: any
	}{
		{"in force", "POST", "", auth, nil, 200, `{"generation":2}`},
		{"refused", "POST", "", auth, errors.New(`flynn.toml:3: no agent "x"`), 200, `{"generation":2,"refused":"flynn.toml:3: no agent \"x\""}`},
		{"in force after that", "POST", "", auth, nil, 200, `{"generation":3}`},
		{"without the token", "POST", "{}", map[string]string{"Content-Type": jsonType}, nil, 401, ""},
		{"another key", "POST", `{"force":true}`, auth, nil, 400, ""},
		{"by reading", "GET", "", auth, nil, 405, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.refuses = tt.refuses
			status, _, body := d.ask(request{method: tt.method, path: "/api/v1/configuration/reload", body: tt.body, header: tt.header})
			if status != tt.status || tt.answer != "" && body != tt.answer+"\n" && body != tt.answer {
				t.Errorf("answered %d %s, want %d %s", status, body, tt.status, tt.answer)
			}
		})
	}
	if r.generation != 3 {
		t.Errorf("%d generations", r.generation)
	}
}
