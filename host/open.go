package host

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/access/owners"
	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/access/signin"
	"github.com/flynnhost/flynn/host/admin/backup"
	"github.com/flynnhost/flynn/host/admin/lint"
	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/agent/assemble"
	"github.com/flynnhost/flynn/host/agent/halt"
	"github.com/flynnhost/flynn/host/agent/schedule"
	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/channel/attachments"
	"github.com/flynnhost/flynn/host/channel/command"
	"github.com/flynnhost/flynn/host/channel/notice"
	"github.com/flynnhost/flynn/host/channel/plugged"
	"github.com/flynnhost/flynn/host/cluster"
	"github.com/flynnhost/flynn/host/cluster/agreement"
	"github.com/flynnhost/flynn/host/cluster/peers"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/api"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/gateway/preview"
	"github.com/flynnhost/flynn/host/gateway/rest"
	"github.com/flynnhost/flynn/host/inforce"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/observe/egresslog"
	"github.com/flynnhost/flynn/host/observe/explain"
	"github.com/flynnhost/flynn/host/observe/feed"
	"github.com/flynnhost/flynn/host/observe/metrics"
	"github.com/flynnhost/flynn/host/observe/shadowlog"
	"github.com/flynnhost/flynn/host/observe/telemetry"
	"github.com/flynnhost/flynn/host/parts"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/instances"
	"github.com/flynnhost/flynn/host/plugin/service"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/policy/gate"
	"github.com/flynnhost/flynn/host/policy/history"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/fleet/drivers"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/builtin"
	"github.com/flynnhost/flynn/host/tool/consent"
	"github.com/flynnhost/flynn/host/tool/elevate"
	"github.com/flynnhost/flynn/host/tool/provider"
	"github.com/flynnhost/flynn/host/tool/provider/sandboxed"
	"github.com/flynnhost/flynn/host/tool/search"
)

func (h *Host) open(ctx context.Context, c *config.Config) error {
	for name := range h.attach {
		if _, ok := c.Channels[name]; !ok {
			return fmt.Errorf("attach: there is no channel %q: add [channels.%s] to the configuration", name, name)
		}
	}
	var err error
	if h.store, err = h.openStore(ctx, c.Store); err != nil {
		return err
	}
	if h.peers, err = peers.New(peers.Config{Listen: c.Cluster.Listen, Advertise: c.Cluster.Advertise, Store: h.store, Log: h.log}); err != nil {
		return err
	}
	address, fingerprint := h.peers.Self()
	h.member = cluster.New(cluster.Config{Owners: h.store, Version: h.version, Peer: address, Fingerprint: fingerprint, Log: h.log})
	h.editor = edit.InHost(h.holder, edit.EditorConfig{Getenv: h.getenv, Checks: Checks(), Restart: h.restart, Recorder: backend.Edits{Store: h.store}, Log: h.log})
	if h.agreement, err = agreement.Open(ctx, agreement.Config{Store: h.store, Holder: h.holder, Editor: h.editor, Log: h.log}); err != nil {
		return err
	}
	if h.kill, err = halt.Open(ctx, h.store, h.log); err != nil {
		return err
	}
	if h.files, err = h.openFiles(c); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	metrics.Subscribe(registry, &h.events)
	h.watch()
	searches := search.Services{Now: h.current.Search, Events: &h.events, Log: h.log}
	own, err := assemble.OwnTools(builtin.Config{Memory: h.store, MaxNotes: h.current.MaxNotes, Results: h.store, Keep: h.files.Keep, Web: h.web, Search: searches})
	if err != nil {
		return err
	}
	h.egress = egresslog.New(egresslog.Config{Store: h.store, Log: h.log, Events: &h.events})
	h.drivers = drivers.New(c.Store.Dir)
	h.fleet, err = fleet.New(fleet.Config{Dir: c.Store.Dir, Store: h.store, Cluster: h.member, Media: h.files.Media(), Egress: h.egress, Outside: h.outside, Drivers: h.drivers, Log: h.log})
	if err != nil {
		return err
	}
	h.feed = feed.New(feed.Config{Store: h.store, Events: &h.events, Warned: h.recent.Warned(), Sandboxes: h.fleet, Log: h.log})
	if err := session.MoveWorkspaces(ctx, h.store, h.fleet.Folders().Workspaces); err != nil {
		return err
	}
	past, err := history.Open(c.Store.Dir, h.store)
	if err != nil {
		return err
	}
	if err := past.Prune(ctx); err != nil {
		h.log.Warn("cannot prune the archive of policies", "error", err)
	}
	h.shadows = shadowlog.New(shadowlog.Config{Store: h.store, Log: h.log, Events: &h.events})
	event.On(&h.events, h.shadows.Shadowed)
	cache := filepath.Join(c.Store.Dir, "wasm-cache")
	h.policies, err = policy.New(ctx, policy.Config{
		Sources: configured.Live(c, h.log), CacheDir: cache, Log: h.log, Events: &h.events, History: past,
		Gate: gate.Gate{Log: h.store, Cache: cache},
	})
	if err != nil {
		return err
	}
	if err := h.openServices(c); err != nil {
		return err
	}
	if h.plugins, err = plugin.New(plugin.Config{
		Services: h.services, Attach: h.attach,
		Dir: c.Plugins.Dir, StateDir: filepath.Join(c.Store.Dir, "state"), DevPaths: c.Plugins.DevPaths, Log: h.log,
		Events: &h.events, Contain: instances.Containment(c, h.launcher),
		Where: func(section, instance string, key []string) string {
			return instances.Where(h.holder.Current(), section, instance, key)
		},
	}); err != nil {
		return err
	}
	h.servers = sandboxed.New(h.fleet, h.plugins, h.log)
	if h.approvals, err = approval.New(approval.Config{Store: h.store, Grants: h.store,
		Notify:      func(a consent.Approval) { h.notices.Changed(a) },
		Sandboxes:   h.fleet,
		SelfApprove: func(requester message.SenderKey) bool { return h.owners.SelfApprove(requester) },
	}); err != nil {
		return err
	}
	if h.elevated, err = elevate.New(elevate.Config{Store: h.store, Gates: h.current.Gates, Log: h.log}); err != nil {
		return err
	}
	h.outbox = channel.NewOutbox(channel.OutboxConfig{Store: h.store, Drafts: h.store, Media: h.files.Open, Log: h.log, Events: &h.events, Ownership: h.member})
	if err := h.openPairings(ctx); err != nil {
		return err
	}
	claims, err := provider.OpenJournal(filepath.Join(c.Store.Dir, "tools.json"))
	if err != nil {
		return err
	}
	h.agents = h.newAssembler()
	h.tools = provider.NewSet(provider.SetConfig{Own: own, Journal: claims, Processes: h.plugins, Servers: h.servers, Generations: &h.current, Log: h.log})
	h.current.Parts = inforce.Parts{
		Agents: h.agents, Tools: h.tools, Policies: h.policies, Proofs: &h.proofs, Pairings: h.pairings, Sessions: h.fleet.Quota(), Feed: h.feed,
		Events: &h.events, Counts: &h.counts, Log: h.log,
	}
	g, err := h.current.Make(c)
	if err != nil {
		return err
	}
	h.current.Store(g)
	h.fleet.Configure(c)
	h.wire(c)
	h.backups = backup.NewRunner(h.current.Config, h.getenv, h.log)
	metrics.Observe(registry, state{h})
	if h.previews, err = preview.New(preview.Config{
		Sandboxes: boxes{h.fleet}, Halted: h.kill, People: h.signedIn(), Audit: h.store, Origin: c.Gateway.PreviewOrigin, Log: h.log,
	}); err != nil {
		return err
	}
	subjects := h.backend()
	h.gateway, err = gateway.New(gateway.Config{
		Listen: c.Gateway.Listen, TokenFile: c.Gateway.TokenFile, Origins: c.Gateway.Origins, Log: h.log, Registry: registry,
		Clients: h.clientAPIs(), API: rest.New(subjects, h.version, h.log), Previews: h.previews, Idle: &h.idle,
	}, subjects)
	if err == nil {
		h.parts.Tell()
	}
	return err
}

// openFiles opens the store of attachments.
func (h *Host) openFiles(c *config.Config) (*attachments.Files, error) {
	return attachments.Open(attachments.Config{
		Dir: filepath.Join(c.Store.Dir, "media"), Media: c.Media, Store: h.store, Workspaces: workspaces{h}, Kept: append(config.LocalFrontends(), message.ConsoleChannel, api.OpenAI),
		InTurns:  func(ctx context.Context) (map[string]bool, error) { return agent.MediaInUse(ctx, h.store) },
		MaxImage: model.MaxImage, Others: attachments.OthersOf(h.store), Log: h.log,
	})
}

// wire connects inbox, runner and outbox.
func (h *Host) wire(c *config.Config) {
	h.budgets = budget.New(budget.Config{Store: h.store, Zone: c.Budgets.Zone(), Shared: h.member.Shared()})
	h.live = channel.NewLive(channel.LiveConfig{Outbox: h.outbox, Stream: h.current.Streams, Log: h.log})
	h.notices = notice.New(notice.Config{
		Store: h.store, Outbox: h.outbox, Requests: h.approvals, Owners: h.owners, Quota: h.fleet.Quota(), Config: h.current.Config, Log: h.log,
	})
	t := turns{h}
	h.runner = agent.NewRunner(agent.Config{
		Store: h.store, Generations: &h.current, Machines: h.fleet, Snapshots: h.fleet, Approvals: h.approvals, Tools: &tool.Runner{Log: h.log}, Outbox: replies{h},
		Inbox: t, Queue: t, Orders: t, Notices: h.notices, Attachments: h.files, Views: views{h.live}, Elevations: h.elevated,
		Budgets: h.budgets, Events: &h.events, Stopped: h.kill.Why, Log: h.log, Parallel: c.Budgets.ParallelTurns,
		Ownership: h.member,
	})
	h.kill.Govern(h.runner)
	h.parts = parts.New(parts.Config{Store: h.store, Member: h.member, Listens: func() string { return h.gateway.Addr().String() }, Current: h.current.Config, Policies: h.policies, Log: h.log})
	h.uptake = cluster.NewUptake(cluster.UptakeConfig{Member: h.member, Turns: h.runner, Replies: h.outbox, Sandboxes: h.fleet, Memory: []cluster.Memory{h.kill, h.pairings, h.signIns, h.approvals, h.parts, h.files, h.agreement}, Bounds: &h.current, Log: h.log})
	h.queue = agent.NewQueue(h.runner)
	h.sessions = session.NewKeeper(session.Config{
		Store: h.store, Turns: h.runner, Queue: h.queue, Sandboxes: h.fleet, Files: h.fleet, Quota: h.fleet.Quota(), Media: h.files,
		Pairings: h.pairings, Elevations: h.elevated, Log: h.log,
		Retention: h.current.Retention,
	})
	links := signin.Links{
		Service: h.signIns, Listens: func() string { return h.gateway.Addr().String() }, Origins: func() []string { return h.current.Config().Gateway.Origins },
	}
	h.commands = command.New(command.Config{
		Store: h.store, Approvals: h.approvals, Elevated: h.elevated, Pairings: h.pairings, Console: links, Rules: &h.current, Turns: h.runner, Scopes: inforce.Scopes{Current: &h.current, Runner: h.runner},
		Sessions: h.sessions, Switch: h.kill, Outbox: h.outbox, Ownership: h.member, Watchers: h.broker, Now: time.Now, Log: h.log,
	})
	h.arrivals = agent.NewArrivals(h.queue, h.commands)
	h.runner.Arrive(h.arrivals)
	h.inbox = channel.NewInbox(channel.InboxConfig{
		Store: h.store, Admitter: &h.current, Strangers: h.pairings, Takers: takers{h.arrivals, h.notices}, MaxAge: time.Duration(c.Store.MaxAgeHours) * time.Hour,
		Log: h.log, Events: &h.events,
	})
	h.channels = plugged.New(plugged.Config{
		Inbox: h.inbox, Outbox: h.outbox, Files: h.files, Proofs: &h.proofs, Store: h.store, Leases: h.member, Access: h.current.Access, Log: h.log,
	})
	h.schedules = schedule.New(schedule.Config{Store: h.store, Log: h.log, Replied: h.outbox.Push, Submit: h.inbox.Accept})
	h.schedules.Set(schedule.Entries(c))
}

// takers passes on what the inbox has committed.
type takers struct {
	*agent.Arrivals
	*notice.Notices
}

// setChannels starts and stops channels after a change of the configuration.
func (h *Host) setChannels(old, next *config.Config) {
	h.services.Keep(instances.Names(next))
	for _, w := range access.Warnings(next) {
		h.log.Warn("a rule for senders", "key", w.Key, "line", w.Line, "problem", w.Problem, "hint", w.Hint)
	}
	for _, w := range lint.Networks(next) {
		h.log.Warn("a network of sandboxes", "key", w.Key, "line", w.Line, "problem", w.Problem, "hint", w.Hint)
	}
	instances.Set(h.plugins, h.log, h.channels, old.Channels, next.Channels)
}

// openServices prepares the services that plugins may use, and listens for their webhooks if the configuration has any.
func (h *Host) openServices(c *config.Config) (err error) {
	publicURL := ""
	if c.Gateway.HooksListen != "" {
		if h.hooks, err = gateway.NewHooks(c.Gateway.HooksListen, h.log); err != nil {
			return err
		}
		h.hooks.Idle = &h.idle
		publicURL = cmp.Or(strings.TrimRight(c.Gateway.PublicURL, "/"), "http://"+h.hooks.Addr().String())
	}
	h.services, err = service.New(service.Config{
		Values: h.store, Media: h.files.Media(), PublicURL: publicURL, Log: h.log, Events: &h.events,
	})
	return err
}

// openPairings opens the services for pairing requests and sign-ins.
func (h *Host) openPairings(ctx context.Context) (err error) {
	h.owners = owners.New(owners.Config{Store: h.store, Rules: h.current.Owners, Log: h.log})
	h.pairings, err = pairing.Open(ctx, pairing.Config{
		Store: h.store, Log: h.log, Outbox: h.outbox, Owners: h.owners, Role: h.current.PairRole, Turns: running{h}, Events: &h.events,
	})
	if err != nil {
		return err
	}
	h.signIns, err = signin.Open(ctx, signin.Config{Store: h.store, Log: h.log})
	return err
}

// watch subscribes the observers of turns: live views, and the exporter of spans, which follows the configuration in force.
func (h *Host) watch() {
	event.On(&h.events, h.broker.Publish)
	h.telemetry = telemetry.New(telemetry.Config{Endpoint: h.current.Traces, Trace: explain.Reader{Store: h.store}.Explain, Events: &h.events, Log: h.log})
	event.On(&h.events, func(e agent.TurnEnded) {
		if !e.WithParent && !e.Released {
			h.telemetry.Offer(e.Turn)
		}
	})
}
