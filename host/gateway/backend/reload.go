package backend

import (
	"context"
	"fmt"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Reload reloads the configuration.
type Reload struct {
	Holder *config.Holder
	Editor *edit.Editor
}

var _ gateway.Reloader = Reload{}

// Reload implements gateway.Reloader. The reload continues when the client has gone: half of one is none. It does not wait for edits, of which
// one may be a command's that asks for it.
func (r Reload) Reload(ctx context.Context, by string) (gateway.Reloaded, error) {
	ctx = context.WithoutCancel(ctx)
	before := r.Holder.Current().Digest
	err := r.Holder.Reload(ctx)
	now := r.Holder.Current()
	if err == nil && now.Digest != before {
		r.Editor.Record(ctx, edit.Author{By: by, What: "reload the file"}, now.Generation)
	}
	out := gateway.Reloaded{Generation: now.Generation}
	if err == nil {
		out.Hosts = now.Hosts
	}
	return out, err
}

// Edits records edits of flynn.toml in the audit log.
type Edits struct {
	Store interface {
		AddAudit(ctx context.Context, rows []consent.AuditRow) error
	}
}

var _ edit.Recorder = Edits{}

// Edited implements edit.Recorder.
func (e Edits) Edited(ctx context.Context, a edit.Author, generation uint64) error {
	return e.Store.AddAudit(ctx, []consent.AuditRow{{
		At: time.Now(), Kind: consent.AuditConfigured, Subject: fmt.Sprintf("configuration %d", generation), Actor: a.By, Detail: a.What,
	}})
}
