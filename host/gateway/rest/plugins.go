package rest

import (
	"context"
	"net/http"

	"github.com/flynnhost/flynn/host/gateway"
)

// plugins shows the plugins and restarts them.
type plugins struct{ gateway.Plugins }

// OfInstance is the path of an instance of a plugin.
type OfInstance struct {
	Instance string `path:"instance" minLength:"1" maxLength:"256" doc:"The instance's name in flynn.toml"`
}

func (p plugins) register(r *registrar) {
	const subject = "Plugins"
	add(r, Operation{ID: "list-plugins", Method: http.MethodGet, Path: "/plugins", Subject: subject, Least: owner, Summary: "Every instance of a plugin, by name"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.PluginStatus, error) {
			return orEmpty(p.Plugins.Plugins(ctx), nil)
		})
	type after struct {
		OfInstance
		After uint64 `query:"after" doc:"The seq of a line: only later ones"`
	}
	add(r, Operation{ID: "list-plugin-lines", Method: http.MethodGet, Path: "/plugins/{instance}/logs", Subject: subject, Least: owner,
		Summary: "The last lines of an instance's log"},
		func(ctx context.Context, _ gateway.Caller, in *after) ([]gateway.PluginLine, error) {
			return orEmpty(p.PluginLogs(ctx, in.Instance, in.After))
		})
	add(r, Operation{ID: "get-plugin-login", Method: http.MethodGet, Path: "/plugins/{instance}/login", Subject: subject, Least: owner,
		Summary: "The code to be scanned, a secret: anybody who sees it can take the account over"},
		func(ctx context.Context, _ gateway.Caller, in *OfInstance) (gateway.PluginLogin, error) {
			code, err := p.PluginLogin(ctx, in.Instance)
			if err != nil {
				return gateway.PluginLogin{}, err
			}
			return gateway.NewPluginLogin(code)
		})
	act(r, Operation{ID: "restart-plugin", Method: http.MethodPost, Path: "/plugins/{instance}/restart", Subject: subject, Least: owner,
		Summary: "Restart an instance's process; a quarantine ends"},
		func(ctx context.Context, _ gateway.Caller, in *OfInstance) error {
			return p.RestartPlugin(ctx, in.Instance)
		})
}
