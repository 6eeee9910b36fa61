package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/budget"
	"github.com/flynnhost/flynn/host/observe/hostlog"
	"github.com/flynnhost/flynn/host/plugin"
	sandboxkind "github.com/flynnhost/flynn/host/plugin/kind/sandbox"
	toolkind "github.com/flynnhost/flynn/host/plugin/kind/tools"
	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
	"github.com/flynnhost/flynn/host/tool/provider"
)

// Status is the state of the host.
type Status struct {
	Version string
	Started time.Time
	// Serving reports whether the host has started and is not stopping.
	Serving func() bool
	Current func() InForce
	Plugins interface {
		Status() []plugin.Status
		CriticalDown() error
	}
	Tools     Providers
	Policies  Policies
	Sandboxes interface {
		// AsOfNow returns why the sandbox of that name is unavailable now, in words for people, or nil; it does not wait.
		AsOfNow(name string) error
		// Engine describes what makes the sandboxes; empty while nothing does.
		Engine() driver.Capabilities
	}
	Elevated interface {
		All(ctx context.Context) ([]consent.Elevation, error)
	}
	Outbox interface {
		// Waiting counts the replies that are not delivered yet, by channel.
		Waiting() map[string]int
	}
	Member interface {
		// Idle says why this host gets no work of those that share its store.
		Idle() store.Idle
	}
	InStep  []Lacking
	Halt    interface{ State() turnlog.Halt }
	Queue   interface{ Queued() int }
	Turns   interface{ RunningTurns() int }
	Budgets interface {
		Today(ctx context.Context) (budget.Spent, error)
	}
	Logs gateway.Logs
	Log  *slog.Logger
}

// Lacking is what hosts that share a store agree on.
type Lacking interface {
	// Lacks says what this host does not have of it.
	Lacks() []string
}

// Providers are the plugins that offer tools.
type Providers interface {
	// Describe describes the tools of a provider under the rules of its configuration.
	Describe(name string, c config.ToolProvider) (list []provider.Status, problems []string)
}

var _ gateway.Reporter = Status{}

// Ready implements gateway.Reporter.
func (s Status) Ready(context.Context) error {
	if !s.Serving() {
		return errors.New("the host is starting or stopping")
	}
	return s.Plugins.CriticalDown()
}

// Status implements gateway.Reporter.
func (s Status) Status(ctx context.Context) gateway.Status {
	now := s.Current()
	out := gateway.Status{
		Version: s.Version, Generation: now.Number, Started: s.Started, Agents: agents(now), Channels: []gateway.ChannelStatus{},
		Policies: s.Policies.statuses(ctx), Models: models(now.Tiers.Status()), Sandbox: s.sandbox(now.Config.Sandbox),
		Halt: s.halt(), Elevated: s.elevations(ctx), Idle: string(s.Member.Idle()), Warnings: s.warnings(now.Config),
		Queue:   gateway.QueueStatus{Running: s.Turns.RunningTurns(), Waiting: s.Queue.Queued(), Replies: s.Outbox.Waiting()},
		Budgets: s.budgets(ctx, now.Config), Errors: s.errors(),
	}
	for _, p := range s.Plugins.Status() {
		switch p.Kind {
		case toolkind.Name:
			out.Tools = append(out.Tools, s.tools(now, p))
			continue
		case sandboxkind.Name: // is in Sandbox
			continue
		}
		out.Channels = append(out.Channels, gateway.ChannelStatus{
			Name: p.Name, Plugin: p.Plugin, State: string(p.State), Detail: attachedDetail(p), OK: p.State == plugin.Ready,
			Login: p.Login,
		})
	}
	return out
}

func agents(now InForce) []gateway.AgentStatus {
	out := []gateway.AgentStatus{}
	for _, name := range slices.Sorted(maps.Keys(now.Config.Agents)) {
		a := now.Config.Agents[name]
		st := gateway.AgentStatus{Name: name, Kind: a.Kind, Model: now.Config.Models[a.ModelTier].Title(), Tools: a.ToolProfile}
		if a.Kind == "cli" { // an agent CLI has a model and tools of its own
			st.Model, st.Tools = "", ""
		}
		if now.Agents[name].Sandboxed {
			st.Sandbox = cmp.Or(now.Agents[name].Sandbox, "default")
		}
		out = append(out, st)
	}
	return out
}

func models(list []model.Status) []gateway.ModelStatus {
	var out []gateway.ModelStatus
	for _, s := range list {
		out = append(out, gateway.ModelStatus{
			Tier: s.Tier, Provider: s.Provider, Model: s.Model, State: string(s.State), Until: s.Until, Failures: s.Failures, Last: string(s.Last),
		})
	}
	return out
}

// tools is the status of a plugin of tools: the host's rules and the plugin's claims.
func (s Status) tools(now InForce, p plugin.Status) gateway.ToolsStatus {
	out := gateway.ToolsStatus{
		Name: p.Name, Plugin: p.Plugin, State: string(p.State), Detail: detail(p), OK: p.State == plugin.Ready, Tools: []gateway.ToolStatus{},
	}
	list, problems := s.Tools.Describe(p.Name, now.Config.Tools[p.Name])
	out.Problems = problems
	for _, t := range list {
		one := gateway.ToolStatus{
			Name: t.Name, Own: t.Own, Effect: string(t.Effect), Approve: t.Approve, Profiles: t.Profiles, Agents: []string{}, Claims: t.Claims,
			Says: t.Says, Digest: t.Digest, Was: t.Was, Changed: t.Changed,
		}
		for _, name := range slices.Sorted(maps.Keys(now.Agents)) {
			if now.Agents[name].Offered.Has(t.Name) {
				one.Agents = append(one.Agents, name)
			}
		}
		out.Tools = append(out.Tools, one)
	}
	return out
}

// attachedDetail is the detail of a plugin, with the address of a developer's own process if it is attached to one.
func attachedDetail(p plugin.Status) string {
	if p.Attached == "" {
		return detail(p)
	}
	return strings.TrimSuffix("attached to "+p.Attached+", which is not verified; "+detail(p), "; ")
}

// detail is what a plugin reports about its platform or, while it is not usable, the reason.
func detail(p plugin.Status) string {
	switch {
	case p.State == plugin.Ready || p.State == plugin.Degraded || p.LastError == "":
		return p.Detail
	case p.Detail == "":
		return p.LastError
	}
	return p.LastError + " (" + p.Detail + ")"
}

func (s Status) sandbox(c config.Sandbox) gateway.SandboxStatus {
	if !c.Enabled {
		return gateway.SandboxStatus{}
	}
	engine := s.Sandboxes.Engine()
	v := gateway.SandboxStatus{Enabled: true, Available: true, Engine: engine.Engine, Lacks: engine.Lacking()}
	if err := s.Sandboxes.AsOfNow(""); err != nil {
		v.Available, v.Detail = false, machine.Reason(err)
	}
	return v
}

// shownErrors is how many of the last warnings and errors the status has.
const shownErrors = 5

func (s Status) errors() []hostlog.Record {
	return append([]hostlog.Record{}, s.Logs.Records(hostlog.Filter{Level: slog.LevelWarn, Limit: shownErrors})...)
}

// budgets returns the usage of today of the host, and of the agents that have a limit.
func (s Status) budgets(ctx context.Context, c *config.Config) []gateway.BudgetStatus {
	spent, err := s.Budgets.Today(ctx)
	if err != nil {
		s.Log.Warn("read the usage of today", "error", err)
		return []gateway.BudgetStatus{}
	}
	host, used := spent.Host, spent.Agents
	out := []gateway.BudgetStatus{{
		Tokens: host.Tokens, USD: float64(host.Cost) / 1e9, TokensLimit: int64(c.Budgets.HostTokensPerDay), USDLimit: c.Budgets.HostUSDPerDay,
	}}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if a := c.Agents[name]; a.TokensPerDay > 0 || a.USDPerDay > 0 {
			out = append(out, gateway.BudgetStatus{
				Agent: name, Tokens: used[name].Tokens, USD: float64(used[name].Cost) / 1e9, TokensLimit: int64(a.TokensPerDay), USDLimit: a.USDPerDay,
			})
		}
	}
	return out
}

// halt is nil while the kill switch is off.
func (s Status) halt() *gateway.HaltStatus {
	h := s.Halt.State()
	if !h.On {
		return nil
	}
	return &gateway.HaltStatus{Reason: h.Reason, By: h.By, Since: h.Since}
}

func (s Status) elevations(ctx context.Context) []gateway.ElevationStatus {
	list, err := s.Elevated.All(ctx)
	if err != nil {
		s.Log.Warn("list elevated mode", "error", err)
	}
	out := []gateway.ElevationStatus{}
	for _, e := range list {
		out = append(out, gateway.ElevationStatus{Conversation: e.Conversation, State: e.State, Sender: e.Sender, Until: e.Until})
	}
	return out
}

// warnings are sentences for the owner.
func (s Status) warnings(c *config.Config) []string {
	out := []string{}
	switch s.Member.Idle() {
	case store.IdleDrained:
		out = append(out, "This host is drained and gets no work. flynn cluster drain --undo lets it work again.")
	case store.IdleDiffers:
		out = append(out, "This host gets no work: its configuration, policies or plugins differ from what the hosts that share the store agree on. "+
			"Give it those of the others, or run flynn cluster accept on it.")
	}
	for _, part := range s.InStep {
		for _, l := range part.Lacks() {
			out = append(out, "Not in step with the other hosts: "+l+".")
		}
	}
	if !c.Sandbox.Enabled {
		out = append(out, "The sandbox is off: tools run on this machine, each shell command after an approval.")
	} else if err := s.Sandboxes.AsOfNow(""); err != nil {
		what := "tools that belong in a sandbox are refused"
		if c.Sandbox.OnUnavailable == "host" {
			what = "tools run on this machine, each shell command after an approval"
		}
		out = append(out, fmt.Sprintf("No sandbox: %s. The reason: %s.", what, machine.Reason(err)))
	}
	for _, p := range s.Policies.Engine.Status() {
		if p.Error != "" {
			out = append(out, fmt.Sprintf("Policy %s: %s", p.Name, p.Error))
		}
		if p.Stateful > 0 {
			out = append(out, fmt.Sprintf("Policy %s keeps state between decisions: a module in its first state would make %d of the sampled decisions differently. "+
				"Set isolation = \"pure\" for it.", p.Name, p.Stateful))
		}
		if p.AllowOnError {
			out = append(out, fmt.Sprintf("Policy %s restricts nothing when it fails (dangerously_allow_on_error): %d tool calls have passed that way.",
				p.Name, p.Passed))
		}
	}
	for _, w := range c.Waiting {
		out = append(out, fmt.Sprintf("%s is %s in flynn.toml and %s until flynn is restarted: flynn restart.", w.Key, w.Wanted, w.Runs))
	}
	for _, w := range WeakerThanLinux() {
		out = append(out, "Weaker than on Linux: "+w+".")
	}
	return append(out, stranded(s.Outbox.Waiting(), c.Channels)...)
}

// stranded reports replies that wait for channels that the configuration does not have.
func stranded(waiting map[string]int, channels map[string]config.Channel) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		if !config.BuiltinChannel(name) && !channels[name].Enabled {
			out = append(out, fmt.Sprintf("%d replies wait for the channel %s, which is not configured.", waiting[name], name))
		}
	}
	return out
}
