package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/instances"
)

// runningCommands returns the commands that need a running flynn.
func runningCommands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "logs", Usage: "show the last lines of an instance's log", ArgsUsage: "INSTANCE", Action: pluginLogs,
			Flags: []cli.Flag{&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep printing new lines"}},
		},
		{Name: "restart", Usage: "restart an instance, also from quarantine", ArgsUsage: "INSTANCE", Action: restartPlugin},
		{
			Name: "login", Usage: "show the code that links an instance to a device", ArgsUsage: "INSTANCE", Action: loginPlugin,
			Description: "The code is a secret: anyone who sees it can take the account over.",
		},
	}
}

// listed is a plugin in the JSON of flynn plugin list.
type listed struct {
	plugin.Locked
	Available bool                   `json:"available,omitempty"` // it comes with flynn and has not been used yet
	Disabled  bool                   `json:"disabled,omitempty"`
	Next      string                 `json:"next,omitempty"`
	Previous  []string               `json:"previous,omitempty"`
	Rejected  []plugin.Rejection     `json:"rejected,omitempty"`
	Instances []gateway.PluginStatus `json:"instances,omitempty"`
}

// runningInstances returns the instances of the running flynn, or none if none runs.
func runningInstances(ctx context.Context, c *config.Config) []gateway.PluginStatus {
	if c == nil {
		return nil
	}
	var list []gateway.PluginStatus
	_ = client.Get(ctx, c, "/api/v1/plugins", &list)
	return list
}

func listPlugins(ctx context.Context, cmd *cli.Command) error {
	store, err := pluginStore(ctx, cmd)
	if err != nil {
		return err
	}
	records, err := store.Records()
	if err != nil {
		return err
	}
	running := runningInstances(ctx, configOf(ctx, cmd))
	available, err := store.Available()
	if err != nil {
		return err
	}
	list := []listed{}
	for _, a := range available {
		list = append(list, listed{Locked: plugin.Locked{Name: a.Name, Version: a.Version, Source: a.Source}, Available: true})
	}
	for _, r := range records {
		l := listed{Locked: r.ActiveRelease(), Disabled: r.Disabled, Next: r.Next, Previous: r.Previous, Rejected: r.Rejected}
		for _, i := range running {
			if i.Plugin == r.Name {
				l.Instances = append(l.Instances, i)
			}
		}
		list = append(list, l)
	}
	slices.SortStableFunc(list, func(a, b listed) int { return cmp.Compare(a.Name, b.Name) })
	out := newOutput(ctx, cmd)
	err = printListOr(out, list, "no plugins are installed: install one with flynn plugin install DIR|FILE|URL", []string{"NAME", "VERSION", "PLATFORMS", "FILES", "SIGNED", "INSTALLED", "SOURCE"}, listed.row)
	if err != nil || out.asJSON || len(running) == 0 {
		return err
	}
	out.line("")
	return printList(out, running, []string{"INSTANCE", "PLUGIN", "VERSION", "STATE", "PID", "RESTARTS", "NOT HELD", "DETAIL"}, instanceRow)
}

func (l listed) row() []string {
	if l.Available {
		return []string{l.Name, l.Version, "", "", "", "not used yet", l.Source}
	}
	version, signed := l.Version, "no"
	if l.Disabled {
		version += " (disabled)"
	}
	if l.Signer != "" {
		signed = "yes"
	}
	platforms := l.Platforms
	if l.Platform != "" {
		platforms = []string{l.Platform}
	}
	return []string{l.Name, version, strings.Join(platforms, ","), number(len(l.Files)), signed, localTime(l.Installed), l.Source}
}

func instanceRow(i gateway.PluginStatus) []string {
	pid := ""
	if i.PID != 0 {
		pid = number(i.PID)
	}
	detail := cmp.Or(i.Detail, i.LastError)
	if i.State == "quarantined" || i.State == "backoff" {
		detail = i.LastError
	}
	if i.Login {
		detail = "run flynn plugin login " + i.Name
	}
	return []string{i.Name, i.Plugin, i.Version, i.State, pid, number(i.Restarts), notHeld(i), detail}
}

// notHeld names the containment measures that are off for a process; flynn plugin info shows the reasons.
func notHeld(i gateway.PluginStatus) string {
	var off []string
	for _, m := range i.Containment {
		if !m.On {
			off = append(off, m.Name)
		}
	}
	return strings.Join(off, ", ")
}

// pluginAccount is the JSON of flynn plugin info.
type pluginAccount struct {
	plugin.Record
	Manifest  plugin.Manifest        `json:"manifest"`
	Instances []gateway.PluginStatus `json:"instances"`
	// Settings are the errors in the plugin's settings in flynn.toml.
	Settings config.Errors `json:"settings,omitempty"`
}

func pluginInfo(ctx context.Context, cmd *cli.Command) error {
	store, name, err := storeAndName(ctx, cmd)
	if err != nil {
		return err
	}
	a := pluginAccount{Instances: []gateway.PluginStatus{}}
	if a.Record, err = store.Record(name); err != nil {
		return err
	}
	if a.Manifest, err = store.VerifiedManifest(name); err != nil {
		return err
	}
	c := configOf(ctx, cmd)
	for _, i := range runningInstances(ctx, c) {
		if i.Plugin == name {
			a.Instances = append(a.Instances, i)
		}
	}
	if c != nil {
		s, err := store.Settings(name, a.Active)
		if err != nil {
			return err
		}
		a.Settings = instances.CheckSettings(c, name, s)
	}
	out := newOutput(ctx, cmd)
	if out.asJSON {
		return out.json(a)
	}
	return a.show(out)
}

func (a pluginAccount) show(out *output) error {
	state := ""
	if a.Disabled {
		state = ", disabled"
	}
	if a.Active == "" {
		state = ", not used yet"
	}
	out.line("%s %s%s", a.Name, a.ActiveRelease().Version, state)
	if a.Manifest.Description != "" {
		out.line("  %s", cell(a.Manifest.Description))
	}
	showPermissions(out, a.Manifest)
	for i, r := range a.Releases {
		what := "version"
		if i == 0 {
			what = "active "
		}
		if a.Active == "" {
			out.line("  %s", cell(r.Source))
			continue
		}
		out.line("  %s %s, %s, plugin.toml %.12s, from %s", what, r.Version, signedBy(r.Signer), r.Files[plugin.ManifestName], cell(r.Source))
	}
	for _, r := range a.Rejected {
		out.line("  rejected %s at %s: %s", r.Version, localTime(r.At), cell(r.Why))
	}
	for _, e := range a.Settings {
		out.line("  does not start with %v", e)
	}
	for _, i := range a.Instances {
		out.line("instance %s: %s, version %s, %d restarts", i.Name, i.State, i.Version, i.Restarts)
		for _, m := range i.Containment {
			word := "OFF"
			if m.On {
				word = "on"
			}
			out.line("  %-12s %-4s %s", m.Name, word, m.Detail)
		}
	}
	return nil
}

// runningConfig returns the configuration of the flynn to ask, and the path of the instance that the command names.
func runningConfig(ctx context.Context, cmd *cli.Command) (*config.Config, string, error) {
	c, err := config.LoadBeside(configPath(ctx, cmd), getenvOf(ctx))
	return c, "/api/v1/plugins/" + url.PathEscape(cmd.Args().First()), err
}

const followPoll = 300 * time.Millisecond

func pluginLogs(ctx context.Context, cmd *cli.Command) error {
	c, path, err := runningConfig(ctx, cmd)
	if err != nil {
		return err
	}
	out := newOutput(ctx, cmd)
	var last uint64
	for {
		var lines []gateway.PluginLine
		if err := client.Get(ctx, c, fmt.Sprintf("%s/logs?after=%d", path, last), &lines); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for _, l := range lines {
			if gone := missed(last, l.Seq); gone > 0 {
				out.warn("%d lines came too fast and are lost", gone)
			}
			last = l.Seq
			if err := showLine(out, l); err != nil {
				return err
			}
		}
		if !cmd.Bool("follow") {
			return nil
		}
		select {
		case <-time.After(followPoll):
		case <-ctx.Done():
			return nil
		}
	}
}

// missed counts the lines between two lines that were received one after the other. last is 0 before the first line; numbers start again
// with each host.
func missed(last, now uint64) uint64 {
	if last == 0 || now <= last {
		return 0
	}
	return now - last - 1
}

func showLine(out *output, l gateway.PluginLine) error {
	if out.asJSON {
		return out.value(l)
	}
	out.line("%s %-5s %s", l.Time.Local().Format("2006-01-02 15:04:05.000"), l.Level, cell(l.Text))
	return nil
}

func restartPlugin(ctx context.Context, cmd *cli.Command) error {
	c, path, err := runningConfig(ctx, cmd)
	if err != nil {
		return err
	}
	if err := client.Ask(ctx, c, http.MethodPost, path+"/restart", nil, nil); err != nil {
		return err
	}
	return newOutput(ctx, cmd).success(map[string]bool{"restarted": true}, "restarting: see flynn plugin list")
}

func loginPlugin(ctx context.Context, cmd *cli.Command) error {
	c, path, err := runningConfig(ctx, cmd)
	if err != nil {
		return err
	}
	var login gateway.PluginLogin
	if err := client.Get(ctx, c, path+"/login", &login); err != nil {
		return err
	}
	out := newOutput(ctx, cmd)
	if !out.asJSON && len(login.Rows) == 0 {
		return errors.New("there is nothing to scan: run flynn plugin list to see the state of the instance")
	}
	return out.result(login, "%s", strings.Join(blocks(login.Rows), "\n"))
}

// blocks draws rows of 1 (dark) and 0 (light) for a terminal with a dark background, two rows to a line, with a light margin.
func blocks(rows []string) []string {
	const margin = 2
	wide := strings.Repeat("0", len(rows)+2*margin)
	var all []string
	for range margin {
		all = append(all, wide)
	}
	for _, row := range rows {
		all = append(all, strings.Repeat("0", margin)+row+strings.Repeat("0", margin))
	}
	all = append(all, slices.Repeat([]string{wide}, margin+len(rows)%2)...)
	var out []string
	for i := 0; i+1 < len(all); i += 2 {
		var line strings.Builder
		for x := range all[i] {
			line.WriteString(map[string]string{"00": "█", "01": "▀", "10": "▄", "11": " "}[string([]byte{all[i][x], all[i+1][x]})])
		}
		out = append(out, line.String())
	}
	return out
}
