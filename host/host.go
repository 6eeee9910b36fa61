// Package host connects the areas below it: New reads the configuration and opens the parts, Run serves until its context ends.
//
// Start with open.go, which creates the parts, run.go for the order in which they start and end, and reload.go for changes of the
// configuration. This package decides nothing; docs/architecture.md shows the areas that do, and RATIONALE.md gives reasons.
package host

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/flynnhost/flynn/host/access"
	"github.com/flynnhost/flynn/host/access/owners"
	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/access/signin"
	"github.com/flynnhost/flynn/host/admin/backup"
	"github.com/flynnhost/flynn/host/admin/restart"
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
	"github.com/flynnhost/flynn/host/gateway/preview"
	"github.com/flynnhost/flynn/host/gateway/watch"
	"github.com/flynnhost/flynn/host/inforce"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/observe/egresslog"
	"github.com/flynnhost/flynn/host/observe/feed"
	"github.com/flynnhost/flynn/host/observe/hostlog"
	"github.com/flynnhost/flynn/host/observe/shadowlog"
	"github.com/flynnhost/flynn/host/observe/telemetry"
	"github.com/flynnhost/flynn/host/parts"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/service"
	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/configured"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/fleet"
	"github.com/flynnhost/flynn/host/sandbox/fleet/drivers"
	"github.com/flynnhost/flynn/host/sandbox/fleet/specs"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/database"
	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/builtin"
	"github.com/flynnhost/flynn/host/tool/elevate"
	"github.com/flynnhost/flynn/host/tool/provider"
	"github.com/flynnhost/flynn/host/tool/provider/sandboxed"
)

// Config configures a Host.
type Config struct {
	// Path is the path of flynn.toml.
	Path   string
	Getenv func(string) string
	Log    *slog.Logger
	// LastGood permits a start with the last working configuration if the file has errors.
	LastGood bool
	// Attach maps channels to the addresses of plugin processes that a developer has started.
	Attach  map[string]string
	Version string
	// Hangup delivers SIGHUP, which reloads the configuration; it may be nil.
	Hangup <-chan os.Signal
	// PluginLauncher is the command that runs jail.Enter; without it plugins are not confined.
	PluginLauncher []string
	// Ready is called once when the host has started; it may be nil.
	Ready func()
	// Web is where agents fetch pages from; the zero value is the public internet.
	Web builtin.WebConfig
	// Outside is how sandboxes reach other hosts; the zero value is the host's own network.
	Outside fleet.Outside

	start    restart.Start
	restarts chan *restart.Plan // nil without Serve
	// store opens the store; nil means the one of the configuration.
	store func(context.Context, config.Store) (store.Store, error)
}

// Host is a running Flynn.
type Host struct {
	log       *slog.Logger
	recent    *hostlog.Log // behind log
	version   string
	attach    map[string]string
	started   time.Time
	holder    *config.Holder
	openStore func(context.Context, config.Store) (store.Store, error)
	store     store.Store
	member    *cluster.Member // of the hosts that share the store
	uptake    *cluster.Uptake
	peers     *peers.Network
	parts     *parts.Keeper
	agreement *agreement.Keeper // on the configuration, with other hosts
	files     *attachments.Files
	tools     *provider.Set
	agents    *assemble.Assembler
	fleet     *fleet.Fleet
	drivers   *drivers.Set
	feed      *feed.Feed
	egress    *egresslog.Log
	policies  *policy.Engine
	shadows   *shadowlog.Log
	plugins   *plugin.Host
	approvals *approval.Service
	elevated  *elevate.Mode
	pairings  *pairing.Service
	signIns   *signin.Service
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
	commands  *command.Service
	runner    *agent.Runner
	queue     *agent.Queue
	arrivals  *agent.Arrivals
	backups   *backup.Runner
	broker    *watch.Hub
	gateway   *gateway.Server
	previews  *preview.Service
	questions *api.Service // of API clients
	idle      gateway.Idle // connections
	editor    *edit.Editor
	services  *service.Server
	hooks     *gateway.Hooks // nil if the configuration has no webhooks
	events    event.Bus
	telemetry *telemetry.Exporter
	counts    model.Counts
	budgets   *budget.Accounts
	hangup    <-chan os.Signal
	launcher  []string
	getenv    func(string) string
	onReady   func()
	web       builtin.WebConfig
	outside   fleet.Outside

	servers *sandboxed.Servers // of tool providers

	current inforce.Current
	ready   atomic.Bool

	start    restart.Start
	restarts chan *restart.Plan // nil without Serve
	next     *restart.Plan      // once Run has returned
}

// New reads the configuration and opens the store, the policies and the gateway's port. Nothing is answered before Run.
func New(ctx context.Context, cfg Config) (*Host, error) {
	recent := hostlog.New(cfg.Log.Handler())
	h := &Host{
		log: slog.New(recent), recent: recent, version: cfg.Version, started: time.Now(), broker: watch.NewHub(0), hangup: cfg.Hangup,
		launcher: cfg.PluginLauncher, getenv: cfg.Getenv, attach: cfg.Attach, web: cfg.Web, outside: cfg.Outside, onReady: cfg.Ready,
		start: cfg.start, restarts: cfg.restarts, openStore: cfg.store,
	}
	if h.openStore == nil {
		h.openStore = func(ctx context.Context, c config.Store) (store.Store, error) {
			return database.At(c.Location()).Open(ctx)
		}
	}
	var err error
	open := config.NewHolder
	if cfg.LastGood {
		open = config.OpenLastGood
	}
	if h.holder, err = cfg.start.Open(open)(cfg.Path, cfg.Getenv, h.log, Checks()...); err != nil {
		return nil, err
	}
	if err := h.open(ctx, h.holder.Current()); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// URL returns the address of the web page, including the token.
func (h *Host) URL() string { return h.gateway.URL() }

// Intro returns what there is to know and to try on the web page.
func (h *Host) Intro() gateway.Intro { return h.gateway.Intro(gateway.ChannelWeb) }

// TokenFile returns the file with the token of the web page.
func (h *Host) TokenFile() string { return h.current.Config().Gateway.TokenFile }

// Checks returns the checks of a configuration beyond its own rules, for `flynn serve` and `flynn config check`.
func Checks() []config.Check {
	return []config.Check{route.Check, assemble.CheckTools, assemble.CheckPrograms, specs.Check, configured.Check, elevate.Check, backup.Check}
}
