package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
)

// installed manages the plugins on disk.
type installed struct{ gateway.InstalledPlugins }

// installTimeout is longer than the trial of a version, or the build of a plugin in a clone.
const installTimeout = 11 * time.Minute

func (p installed) register(r *registrar) {
	const subject = "Plugins"
	add(r, Operation{ID: "list-installed-plugins", Method: http.MethodGet, Path: "/installed-plugins", Subject: subject, Least: owner,
		Summary: "The plugins that are installed or come with flynn, by name"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.InstalledPlugin, error) {
			return orEmpty(p.InstalledPlugins.InstalledPlugins(ctx))
		})
	type source struct{ Body gateway.PluginSource }
	add(r, Operation{ID: "install-plugin", Method: http.MethodPost, Path: "/installed-plugins", Subject: subject, Least: owner, Timeout: installTimeout,
		Status: http.StatusCreated, Summary: "Install a plugin from a folder, an archive or a URL"},
		func(ctx context.Context, by gateway.Caller, in *source) (gateway.InstalledPlugin, error) {
			return p.InstallPlugin(ctx, in.Body, string(by.Sender))
		})
	add(r, Operation{ID: "get-installed-plugin", Method: http.MethodGet, Path: "/installed-plugins/{name}", Subject: subject, Least: owner,
		Summary: "A plugin with its versions and permissions"},
		func(ctx context.Context, _ gateway.Caller, in *ByName) (gateway.InstalledPlugin, error) {
			return p.InstalledPlugin(ctx, in.Name)
		})
	type upgrade struct {
		ByName
		Body gateway.PluginSource
	}
	add(r, Operation{ID: "upgrade-plugin", Method: http.MethodPost, Path: "/installed-plugins/{name}/upgrade", Subject: subject, Least: owner,
		Timeout: installTimeout, Summary: "Move a plugin to another version; the host tries it, and goes back when it does not run"},
		func(ctx context.Context, by gateway.Caller, in *upgrade) (gateway.InstalledPlugin, error) {
			return p.UpgradePlugin(ctx, in.Name, in.Body, string(by.Sender))
		})
	add(r, Operation{ID: "rollback-plugin", Method: http.MethodPost, Path: "/installed-plugins/{name}/rollback", Subject: subject, Least: owner,
		Timeout: installTimeout, Summary: "Move a plugin to the version before"},
		func(ctx context.Context, by gateway.Caller, in *ByName) (gateway.InstalledPlugin, error) {
			return p.RollbackPlugin(ctx, in.Name, string(by.Sender))
		})
	type verified struct {
		OK      bool   `json:"ok"`
		Problem string `json:"problem,omitempty"`
	}
	add(r, Operation{ID: "verify-plugin", Method: http.MethodPost, Path: "/installed-plugins/{name}/verify", Subject: subject, Least: owner, Timeout: time.Minute,
		Summary: "Compare every file of a plugin with the lock"},
		func(ctx context.Context, _ gateway.Caller, in *ByName) (verified, error) {
			problem, err := p.VerifyPlugin(ctx, in.Name)
			return verified{OK: problem == "" && err == nil, Problem: problem}, err
		})
	type enabling struct {
		ByName
		Body struct {
			Enabled bool `json:"enabled"`
		}
	}
	act(r, Operation{ID: "enable-plugin", Method: http.MethodPatch, Path: "/installed-plugins/{name}", Subject: subject, Least: owner, Timeout: installTimeout,
		Summary: "Let a plugin start, or stop it and do not start it again"},
		func(ctx context.Context, by gateway.Caller, in *enabling) error {
			return p.EnablePlugin(ctx, in.Name, in.Body.Enabled, string(by.Sender))
		})
	type removing struct {
		ByName
		Force bool `query:"force" doc:"Remove it even if a channel or tool provider uses it"`
	}
	act(r, Operation{ID: "remove-plugin", Method: http.MethodDelete, Path: "/installed-plugins/{name}", Subject: subject, Least: owner,
		Summary: "Delete an installed plugin"},
		func(ctx context.Context, by gateway.Caller, in *removing) error {
			return p.RemovePlugin(ctx, in.Name, in.Force, string(by.Sender))
		})
}
