package settings

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
)

// Restart implements gateway.Configurations.
func (s Settings) Restart(ctx context.Context, by string) (gateway.Restarting, error) {
	text, err := config.Read(s.Editor.Path)
	if err != nil {
		return gateway.Restarting{}, fmt.Errorf("%s: %w", s.Editor.Path, err)
	}
	next, err := config.LoadAs(s.Editor.Path, text, s.Editor.Getenv, s.Editor.Checks...)
	if err != nil {
		return gateway.Restarting{}, &gateway.NotApplied{Problems: gateway.ProblemsOf(err, text)}
	}
	s.Log.Info("flynn restarts", "by", by)
	return s.restarting(next), s.Editor.Restart(nil, nil)
}

// restarting tells where the console is after a restart.
func (s Settings) restarting(next *config.Config) gateway.Restarting {
	if next.Gateway.Listen == s.Holder.Current().Gateway.Listen {
		return gateway.Restarting{}
	}
	return gateway.Restarting{Moved: "http://" + next.Gateway.Listen + "/"}
}

// restartFor returns whether a configuration needs a restart.
func restartFor(current, next *config.Config) string {
	switch keys := config.RestartKeys(current, next); {
	case slices.ContainsFunc(keys, config.Refused):
		return gateway.RestartNow
	case len(keys) > 0:
		return gateway.RestartLater
	}
	return gateway.RestartNone
}

// moved are warnings about what a restart with a configuration leaves behind.
func moved(current, next *config.Config) (out []gateway.ConfigurationProblem) {
	for _, key := range config.RestartKeys(current, next) {
		p := gateway.ConfigurationProblem{Key: key, Line: next.Line(strings.Split(key, ".")...)}
		switch key {
		case "store.dir":
			p.Text = "conversations, people, schedules and sign-ins stay in " + current.Store.Dir
			p.Next = "to keep them, stop flynn, move that folder, change the key in the file and start flynn"
		case "gateway.listen":
			p.Text = "the console and the command line move to http://" + next.Gateway.Listen
			p.Next = "change a proxy or tunnel that leads to the old address too"
		case "gateway.token_file":
			p.Text = "this console is signed out"
			p.Next = "flynn open signs you in with the new token"
		default:
			continue
		}
		out = append(out, p)
	}
	return out
}

// failedRestart tells why an edit is gone after the restart that was for it.
func failedRestart(err error) gateway.ConfigurationProblem {
	return gateway.ConfigurationProblem{
		Text: "flynn did not start with the last edit: " + err.Error(), Next: "the file is as before the edit; what was written is in the history",
	}
}
