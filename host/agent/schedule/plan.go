package schedule

import (
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
)

const (
	// grace is how late a run may begin and still count as on time.
	grace = 2 * time.Minute
	// maxCatchUp bounds the runs that are made up for.
	maxCatchUp = 10
)

// Why a run was skipped.
const (
	underWay = "another one is under way"
	laterDue = "a later one was due by then"
)

// plan says what to do about the due times of a schedule up to now.
type plan struct {
	upto time.Time // the last due time
	runs []timetable.Run
}

// plan handles the due times after from. It is a pure function of its arguments, so repeating it writes the same rows.
func (e Entry) plan(from, now time.Time, busy bool) plan {
	p := plan{upto: from}
	if from.After(now) { // the clock was set back; repeated runs are recognised by their event
		from = now
	}
	var missed, skipped series
	var late, fresh []time.Time // the last ones
	for due := e.Next(from); !due.IsZero() && !e.fires(due).After(now); due = e.Next(due) {
		p.upto = due
		if now.Sub(e.fires(due)) > grace {
			late = missed.keep(late, due, e.room())
		} else {
			fresh = skipped.keep(fresh, due, 1)
		}
	}
	if len(late) > 0 && e.CatchUp != CatchUpAll && (busy || len(fresh) > 0) {
		late = missed.keep(late, time.Time{}, 0)
	}
	if busy && (e.CatchUp != CatchUpAll || len(late) == 0) {
		fresh = skipped.keep(fresh, time.Time{}, 0)
	}
	p.add(missed.run(e, "missed", timetable.RunMissed, now))
	r, ok := skipped.run(e, "skipped", timetable.RunSkipped, now)
	if r.Note = underWay; !busy {
		r.Note = laterDue
	}
	p.add(r, ok)
	for _, due := range append(late, fresh...) {
		p.runs = append(p.runs, timetable.Run{Schedule: e.Name, Event: e.event(due), Due: due, State: timetable.RunDue, Count: 1, At: now})
	}
	return p
}

// room returns how many late due times are made up for.
func (e Entry) room() int {
	switch e.CatchUp {
	case CatchUpAll:
		return maxCatchUp
	case CatchUpSkip:
		return 0
	}
	return 1
}

// series is a number of due times with the same outcome.
type series struct {
	count int
	last  time.Time
}

// keep appends a due time, unless it is zero, to a list that keeps its last room entries; the others are counted in the series.
func (s *series) keep(list []time.Time, due time.Time, room int) []time.Time {
	if !due.IsZero() {
		list = append(list, due)
	}
	for len(list) > room {
		s.count++
		s.last = list[0]
		list = list[1:]
	}
	return list
}

func (s *series) run(e Entry, what string, state timetable.RunState, now time.Time) (timetable.Run, bool) {
	return timetable.Run{
		Schedule: e.Name, Event: what + "/" + e.event(s.last), Due: s.last, State: state, Count: s.count, At: now,
	}, s.count > 0
}

func (p *plan) add(r timetable.Run, ok bool) {
	if ok {
		p.runs = append(p.runs, r)
	}
}
