// Package host puts the rooms together: New reads the configuration and opens what it needs, Run serves until it is
// told to stop.
//
// Start with Host.Run for the order in which things start and end, and generation.go for what a
// reload changes. Everything that is decided is decided in the packages below; this one only wires. Why things are as
// they are stands in RATIONALE.md.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/access/owners"
	"github.com/flynnhost/flynn/host/access/pairing"
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
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/door"
	"github.com/flynnhost/flynn/host/gateway/watch"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/observe/egresslog"
	"github.com/flynnhost/flynn/host/observe/shadowlog"
	"github.com/flynnhost/flynn/host/observe/telemetry"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/instances"
	"github.com/flynnhost/flynn/host/plugin/service"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/policy/gate"
	"github.com/flynnhost/flynn/host/policy/history"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/builtin"
	"github.com/flynnhost/flynn/host/tool/elevate"
	"github.com/flynnhost/flynn/host/tool/provider"
	"github.com/flynnhost/flynn/host/tool/provider/sandboxed"
)

// Config is what a Host is made from.
type Config struct {
	// Path is that of flynn.toml.
	Path   string
	Getenv func(string) string
	Log    *slog.Logger
	// LastGood allows a start from the last configuration that worked when the file is wrong.
	LastGood bool
	// Attach maps channels to the addresses of plugin processes that a developer has started himself.
	Attach  map[string]string
	Version string
	// Hangup carries SIGHUP, which asks for a reload of the configuration; it may be nil.
	Hangup <-chan os.Signal
	// PluginLauncher is the command that runs cell.Enter; without one plugins are not held in.
	PluginLauncher []string
	// Ready is called once, when the host has started; it may be nil.
	Ready func()
	// Web is what agents fetch pages from: the public internet, except for who puts a host together himself.
	Web builtin.WebConfig
	// Outside is what sandboxes reach hosts by: its zero value is the host's own network.
	Outside fleet.Outside
}

// Host is a running Flynn.
type Host struct {
	log       *slog.Logger
	version   string
	attach    map[string]string
	started   time.Time
	holder    *config.Holder
	store     *sqlite.Store
	files     *attachments.Files
	tools     *provider.Set
	agents    *assemble.Assembler
	fleet     *fleet.Fleet
	egress    *egresslog.Log
	policies  *policy.Engine
	shadows   *shadowlog.Log
	plugins   *plugin.Host
	desk      *approval.Desk
	elevated  *elevate.Mode
	pairings  *pairing.Desk
	owners    *owners.Owners
	proofs    access.Proofs
	kill      *halt.Switch
	sessions  *session.Keeper
	inbox     *channel.Inbox
	schedules *schedule.Scheduler
	outbox    *channel.Outbox
	live      *channel.Live
	channels  *plugged.Channels
	notices   *notice.Notices
	commands  *command.Desk
	runner    *agent.Runner
	arrivals  *agent.Arrivals
	broker    *watch.Hub
	gateway   *gateway.Server
	questions *door.Desk   // of programs
	idle      gateway.Idle // connections
	services  *service.Server
	hooks     *gateway.Hooks // nil when no webhooks are taken
	events    event.Bus
	metrics   *metrics
	telemetry *telemetry.Exporter
	counts    model.Counts
	budgets   *budget.Ledger
	hangup    <-chan os.Signal
	launcher  []string
	onReady   func()
	web       builtin.WebConfig
	outside   fleet.Outside

	servers *sandboxed.Servers // of providers

	pair    sync.RWMutex // keeps current and the policies in force together
	current atomic.Pointer[generation]
	ready   atomic.Bool
}

// New reads the configuration and opens the store, the policies and the gateway's port. Nothing is answered before Run.
func New(ctx context.Context, cfg Config) (*Host, error) {
	h := &Host{
		log: cfg.Log, version: cfg.Version, started: time.Now(), broker: watch.NewHub(0), hangup: cfg.Hangup,
		launcher: cfg.PluginLauncher, attach: cfg.Attach, web: cfg.Web, outside: cfg.Outside, onReady: cfg.Ready,
	}
	var err error
	open := config.NewHolder
	if cfg.LastGood {
		open = config.OpenLastGood
	}
	if h.holder, err = open(cfg.Path, cfg.Getenv, cfg.Log, Checks()...); err != nil {
		return nil, err
	}
	if err := h.open(ctx, h.holder.Current()); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (h *Host) open(ctx context.Context, c *config.Config) error {
	for name := range h.attach {
		if _, ok := c.Channels[name]; !ok {
			return fmt.Errorf("attach: there is no channel %q: add [channels.%s] to the configuration", name, name)
		}
	}
	var err error
	if h.store, err = sqlite.Open(ctx, c.Store.Dir); err != nil {
		return err
	}
	if h.kill, err = halt.Open(ctx, h.store, h.log); err != nil {
		return err
	}
	if h.files, err = h.openFiles(c); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	h.metrics = newMetrics(registry)
	registry.MustRegister(breakers{h.modelStatus})
	h.telemetry = h.newTelemetry()
	h.watchTurns()
	own, err := assemble.OwnTools(builtin.Config{Memory: h.store, MaxNotes: h.maxNotes, Results: h.store, Keep: h.files.Keep, Web: h.web})
	if err != nil {
		return err
	}
	h.egress = egresslog.New(egresslog.Config{Store: h.store, Log: h.log, Count: h.metrics.egressDecision, Lost: h.metrics.egressLost})
	h.fleet, err = fleet.New(fleet.Config{Dir: c.Store.Dir, Store: h.store, Media: h.files.Media(), Egress: h.egress, Outside: h.outside, Log: h.log})
	if err != nil {
		return err
	}
	if err := session.MoveWorkspaces(ctx, h.store, h.fleet.Folders().Workspaces); err != nil {
		return err
	}
	ledger, err := history.Open(c.Store.Dir, h.store)
	if err != nil {
		return err
	}
	if err := ledger.Prune(ctx); err != nil {
		h.log.Warn("cannot prune the archive of policies", "error", err)
	}
	h.shadows = shadowlog.New(shadowlog.Config{Store: h.store, Log: h.log, Count: h.metrics.policyShadow})
	observeStateful(registry, func() []policy.Status { return h.policies.Status() })
	cache := filepath.Join(c.Store.Dir, "wasm-cache")
	h.policies, err = policy.New(ctx, policy.Config{
		Sources: configured.Sources(c), CacheDir: cache, Log: h.log, OnChange: h.metrics.policyChange, Ledger: ledger,
		Gate: gate.Gate{Log: h.store, Cache: cache}, OnShadow: h.shadows.Shadowed,
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
		OnState: h.metrics.pluginState, OnCall: h.metrics.pluginCall, Contain: instances.Containment(c, h.launcher),
		Where: func(kind plugin.Kind, instance string, key []string) string {
			return instances.Where(h.holder.Current(), kind, instance, key)
		},
	}); err != nil {
		return err
	}
	h.servers = sandboxed.New(h.fleet, h.plugins, h.log)
	if h.desk, err = approval.New(approval.Config{Store: h.store, Grants: h.store,
		Notify:      func(a store.Approval) { h.notices.Changed(a) },
		SelfApprove: func(requester string) bool { return h.owners.SelfApprove(requester) },
	}); err != nil {
		return err
	}
	if h.elevated, err = elevate.New(elevate.Config{Store: h.store, Gates: h.gates, Log: h.log}); err != nil {
		return err
	}
	h.outbox = channel.NewOutbox(channel.OutboxConfig{Store: h.store, Drafts: h.store, Media: h.files.Open, Log: h.log, Count: h.metrics.delivery})
	if err := h.openPairings(ctx); err != nil {
		return err
	}
	claims, err := provider.OpenLedger(filepath.Join(c.Store.Dir, "tools.json"))
	if err != nil {
		return err
	}
	h.agents = h.newAssembler()
	h.tools = provider.NewSet(provider.SetConfig{Own: own, Ledger: claims, Processes: h.plugins, Servers: h.servers, Generations: generations{h}, Log: h.log})
	g, err := h.newGeneration(c)
	if err != nil {
		return err
	}
	h.current.Store(g)
	h.fleet.Configure(c)
	h.wire(c)
	observeWaiting(registry, h.outbox.Waiting)
	observePools(registry, h.fleet.PoolStats)
	h.gateway, err = gateway.New(gateway.Config{
		Listen: c.Gateway.Listen, TokenFile: c.Gateway.TokenFile, Origins: c.Gateway.Origins, Log: h.log, Registry: registry,
		Programs: h.programs(), Idle: &h.idle,
	}, backend{h})
	return err
}

// openFiles opens the store of attachments.
func (h *Host) openFiles(c *config.Config) (*attachments.Files, error) {
	return attachments.Open(attachments.Config{
		Dir: filepath.Join(c.Store.Dir, "media"), Media: c.Media, Store: h.store, Workspaces: workspaces{h}, Kept: []string{door.OpenAI},
		InTurns:  func(ctx context.Context) (map[string]bool, error) { return agent.MediaInUse(ctx, h.store) },
		MaxImage: model.MaxImage, Log: h.log,
	})
}

// wire ties inbox, runner and outbox together.
func (h *Host) wire(c *config.Config) {
	h.budgets = budget.New(budget.Config{Store: h.store, Zone: budgetZone(c)})
	h.live = channel.NewLive(channel.LiveConfig{Outbox: h.outbox, Stream: inForce{h}.streams, Log: h.log})
	h.notices = notice.New(notice.Config{
		Store: h.store, Outbox: h.outbox, Requests: h.desk, Owners: h.owners, Quota: h.fleet.Quota(), Config: inForce{h}.config, Log: h.log,
	})
	t := turns{h}
	h.runner = agent.NewRunner(agent.Config{
		Store: h.store, Generations: inForce{h}, Machines: h.fleet, Approvals: h.desk, Tools: &tool.Runner{Log: h.log}, Outbox: replies{h},
		Inbox: t, Queue: t, Orders: t, Notices: h.notices, Attachments: h.files, Views: views{h.live}, Elevations: h.elevated,
		Ledger: h.budgets, Events: &h.events, Stopped: h.kill.Why, Log: h.log, Parallel: c.Budgets.ParallelTurns,
	})
	h.kill.Govern(h.runner)
	h.commands = command.NewDesk(command.Config{
		Store: h.store, Approvals: h.desk, Elevated: h.elevated, Pairings: h.pairings, Rules: inForce{h}, Turns: h.runner, Sessions: sessions{h},
		Switch: h.kill, Outbox: h.outbox, Watchers: h.broker, Now: time.Now, Log: h.log,
	})
	h.arrivals = agent.NewArrivals(h.runner, h.commands)
	h.sessions = session.NewKeeper(session.Config{
		Store: h.store, Turns: h.runner, Queue: h.arrivals, Sandboxes: h.fleet, Quota: h.fleet.Quota(), Media: h.files.Media(),
		Pairings: h.pairings, Elevations: h.elevated, Log: h.log,
		Retention: func() config.Retention { return h.current.Load().config.Retention },
	})
	h.inbox = channel.NewInbox(channel.InboxConfig{
		Store:     h.store,
		Admitter:  inForce{h},
		Strangers: h.pairings,
		Takers:    takers{h.arrivals, h.notices},
		MaxAge:    time.Duration(c.Store.MaxAgeHours) * time.Hour,
		Log:       h.log,
		Count:     h.metrics.message,
	})
	h.channels = plugged.New(plugged.Config{
		Inbox: h.inbox, Outbox: h.outbox, Files: h.files, Proofs: &h.proofs, Store: h.store, Access: inForce{h}.access, Log: h.log,
	})
	h.schedules = schedule.New(schedule.Config{Store: h.store, Log: h.log, Replied: h.outbox.Push, Submit: h.inbox.Accept})
	h.schedules.Set(schedule.Entries(c))
}

// takers take up what the inbox has committed.
type takers struct {
	*agent.Arrivals
	*notice.Notices
}

// setChannels brings the running channels in line with a configuration.
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

// URL is the address of the web page, token included.
func (h *Host) URL() string { return h.gateway.URL() }

// TokenFile is the file with the token of the web page.
func (h *Host) TokenFile() string { return h.current.Load().config.Gateway.TokenFile }

// Run serves until ctx ends. It takes up what an earlier process left, then accepts new messages; at the end it first stops
// accepting, then lets replies under way arrive, then stops the plugins.
func (h *Host) Run(ctx context.Context) error {
	defer func() {
		if err := h.close(); err != nil {
			h.log.Error("close", "error", err)
		}
	}()
	items, err := agent.Recover(ctx, h.store)
	if err != nil {
		return err
	}
	if err := h.sessions.RestoreQuota(ctx); err != nil {
		return err
	}
	h.questions.Left(questionsOf(items))
	for _, it := range items {
		h.arrivals.Push(it)
	}
	noted, err := h.store.NotedInbox(ctx)
	if err != nil {
		return err
	}
	for _, row := range noted {
		h.runner.Note(row)
	}
	for _, door := range config.OwnDoors() {
		h.outbox.Attach(door, channel.Local{})
	}
	plugins, stopPlugins := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPlugins()
	outbox, stopOutbox := context.WithCancel(context.WithoutCancel(ctx))
	defer stopOutbox()

	var in, out, last, kept group
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	last.run(h, "plugins", stop, func() error { return h.plugins.Run(plugins) })
	out.run(h, "outbox", stop, func() error { return h.outbox.Run(outbox) })
	if err := h.desk.WithdrawEnded(ctx, h.store); err != nil {
		h.log.Error("withdraw requests for approval whose turns have ended", "error", err)
	}
	cfg := h.current.Load().config
	sandboxes, stopSandboxes := context.WithCancel(context.WithoutCancel(ctx)) // turns end before their sandboxes do
	defer stopSandboxes()
	records, stopRecords := context.WithCancel(context.WithoutCancel(ctx)) // they come until the last sandbox is gone
	defer stopRecords()
	kept.run(h, "egress log", stop, func() error { return h.egress.Run(records) })
	out.run(h, "sandbox", stop, func() error { return h.fleet.Run(sandboxes) })
	in.run(h, "live views", stop, func() error { return h.live.Run(ctx) })
	in.run(h, "arrivals", stop, func() error { return h.arrivals.Run(ctx) })
	in.run(h, "commands", stop, func() error { return h.commands.Run(ctx) })
	in.run(h, "memory", stop, func() error { return h.runner.Remember(ctx) })
	in.run(h, "elevated mode", stop, func() error { return h.elevated.Run(ctx) })
	in.run(h, "schedules", stop, func() error { return h.schedules.Run(ctx) })
	in.run(h, "policies", stop, func() error { return h.policies.Run(ctx) })
	in.run(h, "shadow policies", stop, func() error { return h.policies.RunShadows(ctx) })
	kept.run(h, "shadow log", stop, func() error { return h.shadows.Run(records) })
	in.run(h, "telemetry", stop, func() error { return h.telemetry.Run(ctx) })
	in.run(h, "upkeep", stop, func() error { return h.sessions.Run(ctx) })
	in.run(h, "quota", stop, func() error { return h.fleet.Quota().Run(ctx) })
	in.run(h, "media", stop, func() error { return h.files.Media().Run(ctx) })
	in.run(h, "configuration", stop, func() error { return h.follow(ctx) })
	in.run(h, "gateway", stop, func() error { return h.gateway.Run(ctx) })
	in.run(h, "webhooks", stop, func() error { return h.runHooks(ctx) })
	h.setChannels(new(config.Config), cfg)
	h.setTools(new(config.Config), cfg)
	in.run(h, "late tools", stop, func() error { return h.tools.Run(ctx) })
	in.run(h, "critical channels", stop, func() error { return instances.AwaitCritical(ctx, h.plugins, instances.CriticalPatience) })
	h.ready.Store(true)
	h.log.Info("ready", "url", h.gateway.Addr().String(), "recovered", len(items), "took", time.Since(h.started).Round(time.Millisecond))

	if h.onReady != nil {
		h.onReady()
	}
	<-ctx.Done()
	h.ready.Store(false)
	in.wait()
	h.servers.Close()
	stopSandboxes()
	stopOutbox()
	if !out.waitFor(drainTime) {
		h.log.Warn("replies are still being sent; the next start settles their outcome")
	}
	stopPlugins()
	last.wait()
	out.wait()
	stopRecords()
	kept.wait()
	return errors.Join(in.err, out.err, last.err, kept.err)
}

// drainTime is how long replies under way have to arrive when the host stops.
const drainTime = 10 * time.Second

// group is a set of goroutines that belong together.
type group struct {
	wg  sync.WaitGroup
	mu  sync.Mutex
	err error
}

// run starts f. When f fails, everything has to stop.
func (g *group) run(h *Host, name string, stop func(), f func() error) {
	g.wg.Go(func() {
		if err := f(); err != nil && !errors.Is(err, context.Canceled) {
			h.log.Error("a part of the host failed", "part", name, "error", err)
			g.mu.Lock()
			g.err = errors.Join(g.err, fmt.Errorf("%s: %w", name, err))
			g.mu.Unlock()
			stop()
		}
	})
}

func (g *group) wait() { g.wg.Wait() }

func (g *group) waitFor(d time.Duration) bool {
	done := make(chan struct{})
	go func() { // ends with the group, which the host waits for before it returns
		g.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}

// close gives back what New opened.
func (h *Host) close() error {
	var errs []error
	if h.gateway != nil {
		h.gateway.Close() // a second close of the listener is an error that means nothing
	}
	if h.hooks != nil {
		h.hooks.Close() // likewise
	}
	if h.policies != nil {
		errs = append(errs, h.policies.Close())
	}
	if g := h.current.Load(); g != nil {
		errs = append(errs, g.models.Close())
	}
	if h.store != nil {
		errs = append(errs, h.store.Close())
	}
	return errors.Join(errs...)
}
