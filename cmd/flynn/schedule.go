package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
)

func scheduleCommand() *cli.Command {
	return &cli.Command{
		Name: "schedule", Usage: "show and run what agents do by themselves",
		Description: "Schedules are configured as [[schedules]]. The host has to run; what it was not there for is in the history as missed.",
		Commands: []*cli.Command{
			{Name: "list", Usage: "list the schedules, and when each is due", Action: listSchedules},
			{Name: "show", Usage: "show one schedule", ArgsUsage: "NAME", Action: showSchedule},
			{Name: "history", Usage: "list the last runs of a schedule, latest first", ArgsUsage: "NAME", Action: scheduleHistory},
			{Name: "run", Usage: "run a schedule now, besides its times", ArgsUsage: "NAME", Action: runSchedule},
			{Name: "resume", Usage: "let a schedule run again that was paused after failures", ArgsUsage: "NAME", Action: resumeSchedule},
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

// askSchedules asks the running host, which alone knows what is due.
func askSchedules(ctx context.Context, c *config.Config, path string, body, answer any) error {
	err := askRunning(ctx, c, "/api/v1/schedules"+path, body, answer)
	if errors.Is(err, errNotRunning) {
		return fmt.Errorf("%w: start it with %q", err, "flynn serve")
	}
	return err
}

func listSchedules(ctx context.Context, cmd *cli.Command) error {
	c, err := loadConfig(ctx, cmd)
	if err != nil {
		return err
	}
	var list []gateway.ScheduleStatus
	if err := askSchedules(ctx, c, "", nil, &list); err != nil {
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
		rows = append(rows, []string{s.Name, s.Agent, s.Timing, scheduleState(s), clock(s.Next), last})
	}
	return o.table([]string{"NAME", "AGENT", "WHEN", "STATE", "NEXT", "LAST"}, rows)
}

func scheduleState(s gateway.ScheduleStatus) string {
	switch {
	case s.Paused != "":
		return "paused"
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
	var list []gateway.ScheduleStatus
	if err := askSchedules(ctx, c, "", nil, &list); err != nil {
		return err
	}
	for _, s := range list {
		if s.Name == name {
			return printSchedule(newOutput(ctx, cmd), s)
		}
	}
	return fmt.Errorf("the running flynn has no schedule %q yet: its configuration is an older one", name)
}

func printSchedule(o *output, s gateway.ScheduleStatus) error {
	if o.asJSON {
		return o.json(s)
	}
	last := ""
	if s.Last != nil {
		last = s.Last.State + " " + clock(s.Last.At) + " " + s.Last.Note
	}
	for _, l := range [][2]string{
		{"name", s.Name}, {"agent", s.Agent}, {"when", s.Timing}, {"as", s.As}, {"deliver", s.Deliver}, {"catch up", s.CatchUp},
		{"state", scheduleState(s)}, {"paused", s.Paused}, {"next", clock(s.Next)}, {"last", last},
		{"failures", strconv.Itoa(s.Failures)}, {"text", s.Text},
	} {
		if l[1] != "" {
			o.line("%-9s %s", l[0], cell(l[1]))
		}
	}
	return nil
}

func scheduleHistory(ctx context.Context, cmd *cli.Command) error {
	c, name, err := scheduleNamed(ctx, cmd)
	if err != nil {
		return err
	}
	var runs []gateway.ScheduleRun
	if err := askSchedules(ctx, c, "/"+name+"/runs", nil, &runs); err != nil {
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
	if err := askSchedules(ctx, c, "/"+name+"/run", struct{}{}, &run); err != nil {
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
	return askSchedules(ctx, c, "/"+name+"/resume", struct{}{}, new(map[string]bool))
}
