package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/admin"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
)

func scheduleCommand() *cli.Command {
	return &cli.Command{
		Name: "schedule", Usage: "show and run the schedules of agents",
		Description: "Schedules are configured as [[schedules]]. They run while the host does; what it was not there for is in the history as missed.",
		Commands: []*cli.Command{
			{Name: "list", Usage: "list schedules with their next runs", Action: listSchedules},
			{Name: "show", Usage: "show one schedule", ArgsUsage: "NAME", Action: showSchedule},
			{Name: "history", Usage: "list the last runs of a schedule, latest first", ArgsUsage: "NAME", Action: scheduleHistory},
			{Name: "run", Usage: "run a schedule now", ArgsUsage: "NAME", Action: runSchedule},
			{Name: "resume", Usage: "resume a schedule that was paused after failures", ArgsUsage: "NAME", Action: resumeSchedule},
		},
	}
}

// scheduleNamed is the argument of a command, and the configuration that has it.
func scheduleNamed(ctx context.Context, cmd *cli.Command) (*config.Config, string, error) {
	if cmd.Args().Len() != 1 {
		return nil, "", usagef("name one schedule (run %q)", "flynn schedule list")
	}
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return nil, "", err
	}
	name := cmd.Args().First()
	var names []string
	for _, s := range c.Schedules {
		if names = append(names, s.Name); s.Name == name {
			return c, name, nil
		}
	}
	if near := config.Nearest(name, names); near != "" {
		return nil, "", fmt.Errorf("no schedule %q (did you mean %q?)", name, near)
	}
	return nil, "", fmt.Errorf("no schedule %q: add one with [[schedules]] to %s", name, c.Path)
}

// changeSchedule has the running host do something about a schedule.
func changeSchedule(ctx context.Context, c *config.Config, path string, answer any) error {
	err := client.Ask(ctx, c, "/api/v1/schedules/"+path, struct{}{}, answer)
	if errors.Is(err, client.ErrNotRunning) {
		return fmt.Errorf("%w: start it with %q", err, "flynn serve")
	}
	return err
}

func listSchedules(ctx context.Context, cmd *cli.Command) error {
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	list, atRest, err := schedulesOf(ctx, c)
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(list)
	}
	var rows [][]string
	for _, s := range list {
		last := ""
		if s.Last != nil {
			last = s.Last.State + " " + clock(s.Last.At)
		}
		rows = append(rows, []string{s.Name, s.Agent, s.Timing, scheduleState(s, atRest), clock(s.Next), last})
	}
	return o.table([]string{"NAME", "AGENT", "WHEN", "STATE", "NEXT", "LAST"}, rows)
}

// schedulesOf are those of the running host or, while none runs, as they were left.
func schedulesOf(ctx context.Context, c *config.Config) (list []gateway.ScheduleStatus, atRest bool, err error) {
	err = client.Ask(ctx, c, "/api/v1/schedules", nil, &list)
	if errors.Is(err, client.ErrNotRunning) {
		list, err = admin.Schedules(ctx, c)
		return list, true, err
	}
	return list, false, err
}

func scheduleState(s gateway.ScheduleStatus, atRest bool) string {
	switch {
	case s.Paused != "":
		return "paused"
	case atRest:
		return "no flynn is running"
	case s.Running:
		return "running"
	}
	return "waiting"
}

// clock is a time for people, in this machine's zone; "" for none.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04 MST")
}

func showSchedule(ctx context.Context, cmd *cli.Command) error {
	c, name, err := scheduleNamed(ctx, cmd)
	if err != nil {
		return err
	}
	list, atRest, err := schedulesOf(ctx, c)
	if err != nil {
		return err
	}
	for _, s := range list {
		if s.Name == name {
			return printSchedule(newOutput(ctx, cmd), s, atRest)
		}
	}
	return fmt.Errorf("the running flynn has no schedule %q yet: its configuration is an older one", name)
}

func printSchedule(o *output, s gateway.ScheduleStatus, atRest bool) error {
	if o.asJSON {
		return o.json(s)
	}
	last := ""
	if s.Last != nil {
		last = s.Last.State + " " + clock(s.Last.At) + " " + s.Last.Note
	}
	for _, l := range [][2]string{
		{"name", s.Name}, {"agent", s.Agent}, {"when", s.Timing}, {"as", s.As}, {"deliver", s.Deliver}, {"catch up", s.CatchUp},
		{"state", scheduleState(s, atRest)}, {"paused", s.Paused}, {"next", clock(s.Next)}, {"last", last},
		{"failures", strconv.Itoa(s.Failures)}, {"text", s.Text},
	} {
		if l[1] != "" {
			o.line("%-9s %s", l[0], cell(l[1]))
		}
	}
	return nil
}

// shownRuns is how many runs are shown, as by the running host.
const shownRuns = 100

func scheduleHistory(ctx context.Context, cmd *cli.Command) error {
	c, name, err := scheduleNamed(ctx, cmd)
	if err != nil {
		return err
	}
	var runs []gateway.ScheduleRun
	err = client.Ask(ctx, c, "/api/v1/schedules/"+name+"/runs", nil, &runs)
	if errors.Is(err, client.ErrNotRunning) {
		runs, err = admin.ScheduleRuns(ctx, c, name, shownRuns)
	}
	if err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(runs)
	}
	var rows [][]string
	for _, r := range runs {
		rows = append(rows, []string{clock(r.Due), r.State, strconv.Itoa(r.Count), clock(r.At), r.Note})
	}
	return o.table([]string{"DUE", "STATE", "COUNT", "AT", "NOTE"}, rows)
}

func runSchedule(ctx context.Context, cmd *cli.Command) error {
	c, name, err := scheduleNamed(ctx, cmd)
	if err != nil {
		return err
	}
	var run gateway.ScheduleRun
	if err := changeSchedule(ctx, c, name+"/run", &run); err != nil {
		return err
	}
	o := newOutput(ctx, cmd)
	if o.asJSON {
		return o.json(run)
	}
	o.line("runs: %s", run.Event)
	return nil
}

func resumeSchedule(ctx context.Context, cmd *cli.Command) error {
	c, name, err := scheduleNamed(ctx, cmd)
	if err != nil {
		return err
	}
	if err := changeSchedule(ctx, c, name+"/resume", new(map[string]bool)); err != nil {
		return err
	}
	newOutput(ctx, cmd).done("%s runs at its times again", name)
	return nil
}
