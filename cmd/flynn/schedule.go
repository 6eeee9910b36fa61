package main

import (
	"context"
	"fmt"
	"net/http"
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
		Name: "schedule", Category: groupTalk, Usage: "show and run the schedules of agents",
		Description: "Schedules are configured as [[schedules]]. They run while the host runs; the history lists the other runs as missed.",
		Commands: []*cli.Command{
			scheduleAddCommand(),
			{Name: "list", Usage: "list schedules with their next runs", Action: withConfig(listSchedules)},
			{Name: "show", Usage: "show one schedule", ArgsUsage: "NAME", Action: showSchedule},
			{Name: "history", Usage: "list the last runs of a schedule, latest first", ArgsUsage: "NAME", Action: scheduleHistory},
			{Name: "run", Usage: "run a schedule now", ArgsUsage: "NAME", Action: runSchedule},
			{
				Name: "pause", Usage: "keep a schedule from running until it is resumed", ArgsUsage: "NAME", Action: pauseSchedule,
				Flags: []cli.Flag{&cli.StringFlag{Name: "reason", Usage: "`WHY` it is paused", Required: true}},
			},
			{Name: "resume", Usage: "resume a schedule that was paused, by a person or after failures", ArgsUsage: "NAME", Action: resumeSchedule},
		},
	}
}

// scheduleNamed returns the schedule that a command names, and the configuration that has it.
func scheduleNamed(ctx context.Context, cmd *cli.Command) (*config.Config, string, error) {
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

func listSchedules(ctx context.Context, cmd *cli.Command, c *config.Config) error {
	list, atRest, err := schedulesOf(ctx, c)
	if err != nil {
		return err
	}
	return printListOr(newOutput(ctx, cmd), list, "no schedules: add one as [[schedules]] to "+configPath(ctx, cmd), []string{"NAME", "AGENT", "WHEN", "STATE", "NEXT", "LAST"}, func(s gateway.ScheduleStatus) []string {
		last := ""
		if s.Last != nil {
			last = s.Last.State + " " + clock(s.Last.At)
		}
		return []string{s.Name, s.Agent, s.Timing, scheduleState(s, atRest), clock(s.Next), last}
	})
}

// schedulesOf returns the schedules of the running host or, while none runs, their last known state.
func schedulesOf(ctx context.Context, c *config.Config) (list []gateway.ScheduleStatus, atRest bool, err error) {
	list, err = askOrRead(ctx, c, http.MethodGet, "/api/v1/schedules", nil, func() ([]gateway.ScheduleStatus, error) {
		atRest = true
		return admin.Schedules(ctx, c)
	})
	return list, atRest, err
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

// clock returns a time with its zone for people; "" for none.
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
	return fmt.Errorf("the running flynn has no schedule %q yet: it runs with an older configuration", name)
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

// shownRuns is how many runs the history shows; the running host shows as many.
const shownRuns = 100

func scheduleHistory(ctx context.Context, cmd *cli.Command) error {
	c, name, err := scheduleNamed(ctx, cmd)
	if err != nil {
		return err
	}
	page, err := askOrRead(ctx, c, http.MethodGet, "/api/v1/schedules/"+name+"/runs", nil, func() (gateway.Page[gateway.ScheduleRun], error) {
		runs, err := admin.ScheduleRuns(ctx, c, name, shownRuns)
		return gateway.Page[gateway.ScheduleRun]{Items: runs}, err
	})
	if err != nil {
		return err
	}
	return printListOr(newOutput(ctx, cmd), page.Items, "no runs yet: run it now with flynn schedule run "+name, []string{"DUE", "STATE", "COUNT", "AT", "NOTE"}, func(r gateway.ScheduleRun) []string {
		return []string{clock(r.Due), r.State, number(r.Count), clock(r.At), r.Note}
	})
}

func runSchedule(ctx context.Context, cmd *cli.Command) error {
	c, name, err := scheduleNamed(ctx, cmd)
	if err != nil {
		return err
	}
	var run gateway.ScheduleRun
	if err := client.Ask(ctx, c, http.MethodPost, "/api/v1/schedules/"+name+"/runs", nil, &run); err != nil {
		return startHint(err)
	}
	return newOutput(ctx, cmd).result(run, "runs: %s", run.Event)
}

func pauseSchedule(ctx context.Context, cmd *cli.Command) error {
	c, name, err := scheduleNamed(ctx, cmd)
	if err != nil {
		return err
	}
	pause := map[string]any{"paused": true, "reason": cmd.String("reason")}
	if err := client.Ask(ctx, c, http.MethodPatch, "/api/v1/schedules/"+name, pause, nil); err != nil {
		return startHint(err)
	}
	newOutput(ctx, cmd).done("%s is paused; let it run again with flynn schedule resume %s", name, name)
	return nil
}

func resumeSchedule(ctx context.Context, cmd *cli.Command) error {
	c, name, err := scheduleNamed(ctx, cmd)
	if err != nil {
		return err
	}
	if err := client.Ask(ctx, c, http.MethodPatch, "/api/v1/schedules/"+name, map[string]any{"paused": false}, nil); err != nil {
		return startHint(err)
	}
	newOutput(ctx, cmd).done("%s runs at its times again", name)
	return nil
}
