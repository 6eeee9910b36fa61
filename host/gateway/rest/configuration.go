package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
)

// configuration shows and edits flynn.toml.
type configuration struct{ gateway.Configurations }

// reload puts flynn.toml in force.
type reload struct{ gateway.Reloader }

const (
	// reloadTimeout is longer than the host gives to the stages of one reload.
	reloadTimeout = 2 * time.Minute
	// editBody bounds the body of an edit, in bytes: a text of 1 MiB of which JSON escapes every character.
	editBody = 7 << 20
)

const aboutConfiguration = "Configuration"

func (c reload) register(r *registrar) {
	add(r, Operation{ID: "reload", Method: http.MethodPost, Path: "/configuration/reload", Subject: aboutConfiguration, Least: owner, Timeout: reloadTimeout,
		Summary: "Put flynn.toml in force; if it has an error the one before stays, and the answer says why"},
		func(ctx context.Context, by gateway.Caller, _ *struct{}) (gateway.Reloaded, error) {
			out, err := c.Reload(ctx, string(by.Sender))
			if err != nil {
				out.Refused = err.Error()
			}
			return out, nil
		})
}

type editing struct{ Body gateway.ConfigurationEdit }

func (c configuration) register(r *registrar) {
	add(r, Operation{ID: "get-configuration", Method: http.MethodGet, Path: "/configuration", Subject: aboutConfiguration, Least: owner,
		Summary: "flynn.toml without secrets, and whether it is in force"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) (gateway.Configuration, error) {
			return c.Configuration(ctx)
		})
	type section struct {
		Section string `query:"section" maxLength:"64" doc:"Such as sandbox; without it the keys of all sections"`
	}
	add(r, Operation{ID: "list-configuration-keys", Method: http.MethodGet, Path: "/configuration/keys", Subject: aboutConfiguration, Least: owner,
		Summary: "Every key with its meaning and default, and what the file says"},
		func(ctx context.Context, _ gateway.Caller, in *section) ([]gateway.ConfigurationKey, error) {
			return orEmpty(c.ConfigurationKeys(ctx, in.Section))
		})
	add(r, Operation{ID: "check-configuration", Method: http.MethodPost, Path: "/configuration/check", Subject: aboutConfiguration, Least: owner,
		Timeout: time.Minute,
		Body:    editBody, Summary: "Try an edit as flynn config check does, without making it: problems, the difference, and which parts it restarts"},
		func(ctx context.Context, _ gateway.Caller, in *editing) (gateway.ConfigurationCheck, error) {
			return c.CheckConfiguration(ctx, in.Body)
		})
	add(r, Operation{ID: "edit-configuration", Method: http.MethodPut, Path: "/configuration", Subject: aboutConfiguration, Least: owner, Timeout: reloadTimeout,
		Body: editBody, Summary: "Edit flynn.toml, keeping its comments and order: it is in force afterwards, or as before; with restart, after that"},
		func(ctx context.Context, by gateway.Caller, in *editing) (gateway.ConfigurationEdited, error) {
			return c.EditConfiguration(ctx, in.Body, string(by.Sender))
		})
	add(r, Operation{ID: "restart", Method: http.MethodPost, Path: "/restart", Subject: aboutConfiguration, Least: owner,
		Summary: "End flynn in order and start it again with flynn.toml; if it does not start, it goes on with what was in force"},
		func(ctx context.Context, by gateway.Caller, _ *struct{}) (gateway.Restarting, error) {
			return c.Restart(ctx, string(by.Sender))
		})
	add(r, Operation{ID: "list-former-configurations", Method: http.MethodGet, Path: "/configuration/history", Subject: aboutConfiguration, Least: owner,
		Summary: "The last 50 texts of flynn.toml, the latest first"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.FormerConfiguration, error) {
			return orEmpty(c.FormerConfigurations(ctx))
		})
	type undo struct {
		Body struct {
			Version string `json:"version" minLength:"1" maxLength:"128" doc:"That of the file as the client saw it"`
			Former  string `json:"former,omitempty" maxLength:"64" doc:"The text to bring back; without it the one before"`
		}
	}
	add(r, Operation{ID: "undo-configuration", Method: http.MethodPost, Path: "/configuration/undo", Subject: aboutConfiguration, Least: owner,
		Timeout: reloadTimeout, Summary: "Bring back the text before, or another former one"},
		func(ctx context.Context, by gateway.Caller, in *undo) (gateway.ConfigurationEdited, error) {
			former := in.Body.Former
			if former == "" {
				now, err := c.Configuration(ctx)
				if err != nil {
					return gateway.ConfigurationEdited{}, err
				}
				if former = now.Undo; former == "" {
					return gateway.ConfigurationEdited{}, gateway.BadRequest("there is no former text to bring back")
				}
			}
			return c.EditConfiguration(ctx, gateway.ConfigurationEdit{Version: in.Body.Version, Former: former}, string(by.Sender))
		})
}

// secrets stores secrets.
type secrets struct{ gateway.Secrets }

func (s secrets) register(r *registrar) {
	const subject = "Secrets"
	add(r, Operation{ID: "list-secrets", Method: http.MethodGet, Path: "/secrets", Subject: subject, Least: owner, Summary: "The names of the stored secrets"},
		func(ctx context.Context, _ gateway.Caller, _ *struct{}) ([]gateway.StoredSecret, error) {
			return orEmpty(s.Secrets.Secrets(ctx))
		})
	type secret struct {
		Name string `path:"name" minLength:"1" maxLength:"100" doc:"Letters, digits, - and _, such as telegram_token"`
		Body struct {
			Value string `json:"value" minLength:"1" maxLength:"65536"`
		}
	}
	add(r, Operation{ID: "set-secret", Method: http.MethodPut, Path: "/secrets/{name}", Subject: subject, Least: owner, Timeout: reloadTimeout,
		Body: 400 << 10, Summary: "Store a secret in a file of its own, for a key that ends in _file; no request returns it"},
		func(ctx context.Context, by gateway.Caller, in *secret) (gateway.StoredSecret, error) {
			return s.SetSecret(ctx, in.Name, in.Body.Value, string(by.Sender))
		})
}
