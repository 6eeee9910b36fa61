package host

import (
	"context"
	"errors"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/channel"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/internal/lifecycle"
	"github.com/flynnhost/flynn/host/plugin/instances"
	"github.com/flynnhost/flynn/host/store"
)

// Run serves until ctx ends or a person asks for a restart; see Serve. It continues the work of an earlier process, then accepts new messages.
// At the end it first stops accepting, then waits for replies being sent, then stops the plugins.
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
	h.questions.Left(backend.Questions(items))
	if err := h.runner.Continue(ctx, items); err != nil {
		return err
	}
	for _, frontend := range config.BuiltinChannels() {
		h.outbox.Attach(frontend, channel.Local{})
	}
	plugins, stopPlugins := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPlugins()
	outbox, stopOutbox := context.WithCancel(context.WithoutCancel(ctx))
	defer stopOutbox()

	in, out, processes := lifecycle.Group{Log: h.log}, lifecycle.Group{Log: h.log}, lifecycle.Group{Log: h.log}
	boxes, last, kept := lifecycle.Group{Log: h.log}, lifecycle.Group{Log: h.log}, lifecycle.Group{Log: h.log}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	processes.Go("plugins", stop, func() error { return h.plugins.Run(plugins) })
	out.Go("outbox", stop, func() error { return h.outbox.Run(outbox) })
	if err := h.approvals.WithdrawEnded(ctx, h.store); err != nil {
		h.log.Error("cannot withdraw requests for approval whose turns have ended", "error", err)
	}
	cfg := h.current.Config()
	sandboxes, stopSandboxes := context.WithCancel(context.WithoutCancel(ctx)) // turns end before their sandboxes do
	defer stopSandboxes()
	records, stopRecords := context.WithCancel(context.WithoutCancel(ctx)) // records arrive until the last sandbox is gone
	defer stopRecords()
	kept.Go("egress log", stop, func() error { return h.egress.Run(records) })
	boxes.Go("sandbox", stop, func() error { return h.fleet.Run(sandboxes) })
	renewals, stopRenewals := context.WithCancel(context.WithoutCancel(ctx)) // while turns end and replies are sent
	defer stopRenewals()
	last.Go("lease", stop, func() error { return h.member.Run(renewals) })
	if err := h.member.Begin(ctx); err != nil { // nothing is accepted before: other hosts would not notice if this one died
		return err
	}
	in.Go("parts", stop, func() error { return h.parts.Run(ctx) })
	in.Go("other hosts", stop, func() error { return h.uptake.Run(ctx) })
	in.Go("changes", stop, func() error { return h.feed.Run(ctx) })
	in.Go("views of other hosts' turns", stop, func() error { return h.broker.Follow(ctx, h.feed, h.member, h.peers, h.log) })
	in.Go("way to other hosts", stop, func() error { return h.peers.Run(ctx, h.member, h.broker) })
	in.Go("live views", stop, func() error { return h.live.Run(ctx) })
	in.Go("queue", stop, func() error { return h.queue.Run(ctx) })
	in.Go("commands", stop, func() error { return h.commands.Run(ctx) })
	in.Go("memory", stop, func() error { return h.member.Exclusively(ctx, store.MemoryOwner, h.runner.Remember) })
	in.Go("elevated mode", stop, func() error { return h.elevated.Run(ctx) })
	in.Go("schedules", stop, func() error { return h.member.Exclusively(ctx, store.ScheduleOwner, h.schedules.Run) })
	in.Go("policies", stop, func() error { return h.policies.Run(ctx) })
	in.Go("shadow policies", stop, func() error { return h.policies.RunShadows(ctx) })
	kept.Go("shadow log", stop, func() error { return h.shadows.Run(records) })
	in.Go("telemetry", stop, func() error { return h.telemetry.Run(ctx) })
	in.Go("upkeep", stop, func() error { return h.member.Exclusively(ctx, store.UpkeepOwner, h.sessions.Run) })
	in.Go("quota", stop, func() error { return h.fleet.Quota().Run(ctx) })
	in.Go("media", stop, func() error { return h.files.Media().Run(ctx) })
	in.Go("files for other hosts", stop, func() error { return h.files.Run(ctx) })
	in.Go("backups", stop, func() error { return h.backups.Run(ctx) })
	defer h.holder.Subscribe(h.stage)()
	in.Go("configuration", stop, func() error { return h.holder.Run(ctx, h.hangup) })
	in.Go("configuration of other hosts", stop, func() error { return h.agreement.Run(ctx) })
	in.Go("gateway", stop, func() error { return h.gateway.Run(ctx) })
	in.Go("previews", stop, func() error { return h.previews.Run(ctx) })
	in.Go("webhooks", stop, func() error { return h.hooks.Run(ctx, h.services.Hooks()) })
	instances.Set(h.plugins, h.log, h.drivers, nil, cfg.UsedDrivers())
	h.setChannels(new(config.Config), cfg)
	h.setTools(new(config.Config), cfg)
	in.Go("late tools", stop, func() error { return h.tools.Run(ctx) })
	in.Go("critical channels", stop, func() error { return instances.AwaitCritical(ctx, h.plugins, instances.CriticalPatience) })
	for _, w := range backend.WeakerThanLinux() {
		h.log.Warn("this system is weaker than Linux", "what", w)
	}
	h.ready.Store(true)
	h.log.Info("ready", "url", h.gateway.Addr().String(), "recovered", len(items), "took", time.Since(h.started).Round(time.Millisecond))
	if h.onReady != nil {
		h.onReady()
	}
	select {
	case <-ctx.Done():
	case h.next = <-h.restarts:
		stop()
	}
	h.ready.Store(false)
	in.Wait()
	h.servers.Close()
	stopSandboxes()
	stopOutbox()
	if !out.WaitFor(drainTime) {
		h.log.Warn("replies are still being sent; the next start settles their outcome")
	}
	boxes.Wait() // the plugins of drivers remove them
	stopPlugins()
	processes.Wait() // before other hosts may start theirs
	stopRenewals()
	h.member.Leave()
	last.Wait()
	out.Wait()
	stopRecords()
	kept.Wait()
	return errors.Join(in.Err(), out.Err(), boxes.Err(), processes.Err(), last.Err(), kept.Err())
}

// drainTime is how long a stopping host waits for replies being sent.
const drainTime = 10 * time.Second

// close closes what New opened.
func (h *Host) close() error {
	var errs []error
	if h.gateway != nil {
		h.gateway.Close() // closing the listener again returns an error without meaning
	}
	h.hooks.Close()
	h.peers.Close()
	if h.policies != nil {
		errs = append(errs, h.policies.Close())
	}
	if g := h.current.Load(); g != nil {
		errs = append(errs, g.Models.Close())
	}
	if h.store != nil {
		errs = append(errs, h.store.Close())
	}
	return errors.Join(errs...)
}
