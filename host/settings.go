package host

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/admin/doctor"
	"github.com/flynnhost/flynn/host/admin/settings"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/gateway/rest"
)

// settings edits flynn.toml.
func (h *Host) settings() settings.Settings {
	return settings.Settings{
		Holder: h.holder, Editor: h.editor, Log: h.log, Launcher: h.launcher, SameChannel: h.channels.Same, SameTools: h.tools.Same, FailedRestart: h.start.Failed,
	}
}

// subject is this host as the doctor looks at it.
func (h *Host) subject() doctor.Subject {
	return doctor.Subject{
		Path: h.holder.Path(), Getenv: h.getenv, Checks: Checks(), Launcher: h.launcher, Version: h.version, Log: h.log,
		Host: func(ctx context.Context) *doctor.Running {
			return &doctor.Running{
				Status: h.status().Status(ctx), Plugins: backend.Plugins{Host: h.plugins}.Plugins(ctx), Repeats: h.recent.Repeats(time.Now().Add(-rest.RepeatedWithin), rest.RepeatedAtLeast),
				Cluster: h.cluster().Known(ctx),
			}
		},
	}
}
