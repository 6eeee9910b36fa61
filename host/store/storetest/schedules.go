package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
)

func schedules(t *testing.T, open Opener) {
	s := open()
	run := func(event string, state timetable.RunState) timetable.Run {
		return timetable.Run{Schedule: "report", Event: event, Due: noon, State: state, Count: 1, At: noon}
	}
	report := timetable.Schedule{Name: "report", Timing: "0 7 * * *", Upto: noon}
	check(t, s.PutSchedule(t.Context(), report, []timetable.Run{run("a", timetable.RunDue), run("b", timetable.RunMissed)}))
	equal(t, "open runs", must[[]timetable.Run](t)(s.OpenRuns(t.Context())), []timetable.Run{run("a", timetable.RunDue)})

	report.Upto, report.Failures, report.Paused = noon.Add(time.Hour), 5, "it failed"
	made := run("a", timetable.RunMade)
	check(t, s.PutSchedule(t.Context(), report, []timetable.Run{made}))
	check(t, s.PutSchedule(t.Context(), report, []timetable.Run{run("a", timetable.RunDue)})) // as a clock that was set back would
	equal(t, "a run that is made", must[[]timetable.Run](t)(s.OpenRuns(t.Context())), []timetable.Run{made})
	done := run("a", timetable.RunDone)
	done.Note, done.At = "fine", noon.Add(time.Minute)
	check(t, s.PutSchedule(t.Context(), report, []timetable.Run{done}))
	check(t, s.PutSchedule(t.Context(), report, []timetable.Run{made, run("b", timetable.RunDue)}))
	s = open()
	equal(t, "runs that have ended", must[[]timetable.Run](t)(s.ScheduleRuns(t.Context(), "report", "", 10)),
		[]timetable.Run{run("b", timetable.RunMissed), done})
	equal(t, "schedules", must[[]timetable.Schedule](t)(s.Schedules(t.Context())), []timetable.Schedule{report})

	var many []timetable.Run
	for i := range timetable.KeepRuns + 5 {
		many = append(many, run(fmt.Sprint("n", i), timetable.RunDone))
	}
	many[0].State = timetable.RunDue
	check(t, s.PutSchedule(t.Context(), report, many))
	kept := must[[]timetable.Run](t)(s.ScheduleRuns(t.Context(), "report", "", 2*timetable.KeepRuns))
	if len(kept) != timetable.KeepRuns+1 || kept[len(kept)-1].Event != "n0" {
		t.Errorf("%d runs are kept, the oldest %s; want %d and one that is open", len(kept), kept[len(kept)-1].Event, timetable.KeepRuns)
	}

	page := must[[]timetable.Run](t)(s.ScheduleRuns(t.Context(), "report", "n1004", 2))
	equal(t, "before a run", fmt.Sprint(page[0].Event, page[1].Event), "n1003n1002")
	equal(t, "before a run that is none", len(must[[]timetable.Run](t)(s.ScheduleRuns(t.Context(), "report", "' OR 1", 2))), 0)

	check(t, s.ForgetSchedule(t.Context(), "report"))
	if left := must[[]timetable.Schedule](t)(s.Schedules(t.Context())); len(left) != 0 {
		t.Errorf("left after it was forgotten: %+v", left)
	}
}
