package schedule

import (
	"context"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
)

// left is what a host has left of its schedules.
type left struct {
	known []timetable.Schedule
	open  []timetable.Run
}

func (l left) Schedules(context.Context) ([]timetable.Schedule, error) { return l.known, nil }

func (l left) OpenRuns(context.Context) ([]timetable.Run, error) { return l.open, nil }

func (l left) ScheduleRuns(_ context.Context, name, _ string, _ int) (runs []timetable.Run, err error) {
	for _, r := range l.open {
		if r.Schedule == name {
			runs = append(runs, r)
		}
	}
	return runs, nil
}

func TestAtRest(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 30, 0, 0, time.UTC)
	hourly := func(name string) Entry { return Entry{Name: name, Timing: "hourly", Next: Every(time.Hour)} }
	l := left{
		known: []timetable.Schedule{
			{Name: "late", Timing: "hourly", Upto: now.Add(-50 * time.Hour)}, {Name: "paused", Timing: "hourly", Upto: now, Paused: "it only fails", Failures: 5},
		},
		open: []timetable.Run{{Schedule: "late", Event: "e", State: timetable.RunMade, Count: 1}},
	}
	list, err := AtRest(t.Context(), l, []Entry{hourly("late"), hourly("new"), hourly("paused")}, now)
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	late, fresh, paused := list[0], list[1], list[2]
	if late.Running || late.Waiting != 1 || len(late.Last) != 1 || !late.Next.After(now) || late.Next.After(now.Add(time.Hour)) {
		t.Errorf("one that was cut off is %+v", late)
	}
	if !fresh.Next.After(now) || fresh.Waiting != 0 || len(fresh.Last) != 0 {
		t.Errorf("one that never ran is %+v", fresh)
	}
	if !paused.Next.IsZero() || paused.Paused == "" || paused.Failures != 5 {
		t.Errorf("one that is paused is %+v", paused)
	}
}
