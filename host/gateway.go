package host

import (
	"context"
	"time"

	"github.com/flynnhost/flynn/host/admin/channels"
	"github.com/flynnhost/flynn/host/admin/doctor"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/api"
	"github.com/flynnhost/flynn/host/gateway/api/mcp"
	"github.com/flynnhost/flynn/host/gateway/api/openai"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/observe/explain"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/provider"
)

// backend returns the gateway's backend.
func (h *Host) backend() gateway.Backend {
	policies := backend.Policies{Engine: h.policies, Store: h.store, Editor: h.editor}
	edits := h.settings()
	return gateway.Backend{
		Conversations: h.conversations(),
		Sessions:      backend.Sessions{Keeper: h.sessions, Turns: h.runner, Store: h.store, Log: h.log},
		Approvals:     backend.Approvals{Service: h.approvals, Store: h.store},
		Status:        h.status(),
		Access:        backend.Access{Pairings: h.pairings, SignIns: h.signIns, Roles: h.current.Roles},
		Files:         backend.Files{Keeper: h.files},
		Events:        h.feed,
		Explains:      explain.Reader{Store: h.store},
		Halter:        backend.Halt{Switch: h.kill},
		Keys:          h.store,
		Logs:          h.recent,
		DryRuns:       backend.DryRuns{Current: h.now, Pin: h.current.InForce, Runner: h.runner, Grants: h.approvals},
		Memory:        backend.Memory{Store: h.store, Log: h.log},

		Configurations: edits, Secrets: edits,
		Channels:  channels.Channels{Current: h.holder.Current, Editor: h.editor, Launcher: h.launcher, States: func(ctx context.Context) []gateway.ChannelStatus { return h.status().Status(ctx).Channels }},
		Doctor:    &doctor.Self{Subject: h.subject()},
		Installed: backend.Installed{Config: h.holder.Current, Log: h.log},
		People:    h.people(),
		Plugins:   backend.Plugins{Host: h.plugins},
		Policies:  policies,
		Trials:    backend.NewTrials(policies, h.store),
		Decisions: backend.Decisions{Store: h.store},
		Turns:     explain.Lister{Store: h.store},
		Sandboxes: backend.Sandboxes{Fleet: h.fleet, Tests: h.fleet, Log: h.store, Halted: h.kill, Audit: h.store},
		Previews:  h.previews,
		Cluster:   h.cluster(),
		Agents:    backend.Agents{Current: h.now, Runner: h.runner, Machines: h.fleet, Budgets: h.budgets},
		Routing:   backend.Routing{Current: h.now, Pin: h.current.InForce, Runner: h.runner, Judge: h.current.Judge, Policies: policies},
		Models:    &backend.Models{Current: h.now, Runner: h.runner},
		Reloads:   backend.Reload{Holder: h.holder, Editor: h.editor},
		Schedules: backend.Schedules{Scheduler: h.schedules, Editor: h.editor},
		SignIns:   h.signedIn(),
		Usages:    h.usage(),
	}
}

// status reports on the host.
func (h *Host) status() backend.Status {
	return backend.Status{
		Version: h.version, Started: h.started, Serving: h.ready.Load, Current: h.now, Plugins: h.plugins, Tools: providers{h},
		Policies: backend.Policies{Engine: h.policies, Store: h.store}, Sandboxes: h.fleet, Elevated: h.elevated, Outbox: h.outbox, Member: h.member, InStep: []backend.Lacking{h.agreement, h.parts}, Halt: h.kill, Log: h.log,
		Queue: h.queue, Turns: h.runner, Budgets: h.budgets, Logs: h.recent,
	}
}

func (h *Host) cluster() backend.Cluster {
	return backend.Cluster{Store: h.store, Parts: h.parts, Configuration: h.agreement, Peers: h.peers, Log: h.log}
}

func (h *Host) usage() backend.Usage {
	return backend.Usage{Store: h.store, Media: h.files.Media(), Sandboxes: h.fleet, Accounts: h.budgets, Current: h.now}
}

func (h *Host) signedIn() backend.SignIns {
	return backend.SignIns{Service: h.signIns, Admitted: h.current.AtConsole}
}

func (h *Host) people() backend.People {
	return backend.People{
		Config: h.current.Config, Roles: h.current.Roles, Pairings: h.pairings, SignIns: h.signedIn(),
		Usage: h.usage(), Media: h.files.Media(), Keeper: h.sessions, Files: h.fleet, Persons: h.current.Persons, Store: h.store,
		Editor: h.editor,
	}
}

func (h *Host) conversations() backend.Conversations {
	return backend.Conversations{
		Inbox: h.inbox, Events: h.broker, Turns: h.runner, Others: h.member, Approvals: h.approvals, Files: h.files.Media(), Keeper: h.sessions, Store: h.store,
	}
}

// clientAPIs returns the APIs for clients under the configuration in force.
func (h *Host) clientAPIs() *gateway.ClientAPIs {
	h.questions = api.New(backend.Clients{
		Conversations: h.conversations(), Current: h.now, Turns: h.runner, Files: h.files, Store: h.store,
	}, func() string { return store.NewID(time.Now()) })
	return &gateway.ClientAPIs{
		Client: h.current.Client, Owner: config.Gatekeeper, OpenAI: openai.New(h.questions), MCP: mcp.New(h.questions, h.version),
	}
}

// now returns the generation in force.
func (h *Host) now() backend.InForce {
	g := h.current.Load()
	return backend.InForce{Generation: g.Generation, Config: g.Config, Tiers: g.Models}
}

// providers implements the interfaces of package backend that the gateway's requests need.
type providers struct{ h *Host }

func (p providers) Describe(name string, c config.ToolProvider) ([]provider.Status, []string) {
	return p.h.tools.Provider(name).Describe(provider.RulesOf(c))
}
