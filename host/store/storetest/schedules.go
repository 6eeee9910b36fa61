package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/store"
)

func schedules(t *testing.T, open Opener) {
	s := open()
	run := func(event string, state store.RunState) store.ScheduleRun {
		return store.ScheduleRun{Schedule: "report", Event: event, Due: noon, State: state, Count: 1, At: noon}
	}
	report := store.Schedule{Name: "report", Timing: "0 7 * * *", Upto: noon}
	check(t, s.PutSchedule(t.Context(), report, []store.ScheduleRun{run("a", store.RunDue), run("b", store.RunMissed)}))
	equal(t, "open runs", must[[]store.ScheduleRun](t)(s.OpenRuns(t.Context())), []store.ScheduleRun{run("a", store.RunDue)})

	report.Upto, report.Failures, report.Paused = noon.Add(time.Hour), 5, "it failed"
	made := run("a", store.RunMade)
	check(t, s.PutSchedule(t.Context(), report, []store.ScheduleRun{made}))
	check(t, s.PutSchedule(t.Context(), report, []store.ScheduleRun{run("a", store.RunDue)})) // as a clock that was set back would
	equal(t, "a run that is made", must[[]store.ScheduleRun](t)(s.OpenRuns(t.Context())), []store.ScheduleRun{made})
	done := run("a", store.RunDone)
	done.Note, done.At = "fine", noon.Add(time.Minute)
	check(t, s.PutSchedule(t.Context(), report, []store.ScheduleRun{done}))
	check(t, s.PutSchedule(t.Context(), report, []store.ScheduleRun{made, run("b", store.RunDue)}))
	s = open()
	equal(t, "runs that have ended", must[[]store.ScheduleRun](t)(s.ScheduleRuns(t.Context(), "report", 10)),
		[]store.ScheduleRun{run("b", store.RunMissed), done})
	equal(t, "schedules", must[[]store.Schedule](t)(s.Schedules(t.Context())), []store.Schedule{report})

	var many []store.ScheduleRun
	for i := range store.KeepRuns + 5 {
		many = append(many, run(fmt.Sprint("n", i), store.RunDone))
	}
	many[0].State = store.RunDue
	check(t, s.PutSchedule(t.Context(), report, many))
	kept := must[[]store.ScheduleRun](t)(s.ScheduleRuns(t.Context(), "report", 2*store.KeepRuns))
	if len(kept) != store.KeepRuns+1 || kept[len(kept)-1].Event != "n0" {
		t.Errorf("%d runs are kept, the oldest %s; want %d and one that is open", len(kept), kept[len(kept)-1].Event, store.KeepRuns)
	}

	check(t, s.ForgetSchedule(t.Context(), "report"))
	if left := must[[]store.Schedule](t)(s.Schedules(t.Context())); len(left) != 0 {
		t.Errorf("left after it was forgotten: %+v", left)
	}
}
