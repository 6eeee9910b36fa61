package sqlstore

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
	"github.com/flynnhost/flynn/host/store"
)

// Schedules implements timetable.Schedules.
func (s *Store) Schedules(ctx context.Context) ([]timetable.Schedule, error) {
	return list(ctx, s.read, scanSchedule, listSchedules)
}

// schedulesVersion is the first schema version with schedules.
const schedulesVersion = 11

// Schedules implements the method of timetable.Schedules for reading.
func (r *Reader) Schedules(ctx context.Context) ([]timetable.Schedule, error) {
	if r.version < schedulesVersion {
		return nil, nil
	}
	return list(ctx, r.db, scanSchedule, listSchedules)
}

// OpenRuns implements the method of timetable.Schedules for reading.
func (r *Reader) OpenRuns(ctx context.Context) ([]timetable.Run, error) {
	if r.version < schedulesVersion {
		return nil, nil
	}
	return list(ctx, r.db, scanRun, listOpenRuns)
}

// ScheduleRuns implements the method of timetable.Schedules for reading.
func (r *Reader) ScheduleRuns(ctx context.Context, schedule, before string, limit int) ([]timetable.Run, error) {
	if r.version < schedulesVersion {
		return nil, nil
	}
	return list(ctx, r.db, scanRun, listRuns, schedule, before, limit)
}

// PutSchedule implements timetable.Schedules.
func (s *Store) PutSchedule(ctx context.Context, v timetable.Schedule, runs []timetable.Run) error {
	err := s.writer.write(ctx, owned(store.ScheduleOwner, func(w *writer) error {
		err := w.exec(`INSERT INTO schedules (name, timing, upto, failures, paused) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET timing = excluded.timing, upto = excluded.upto, failures = excluded.failures, paused = excluded.paused`,
			v.Name, v.Timing, nanos(v.Upto), v.Failures, v.Paused)
		if err != nil {
			return err
		}
		return putRuns(w, v.Name, runs)
	}))
	if err != nil {
		return fmt.Errorf("put schedule %s: %w", v.Name, err)
	}
	return nil
}

func putRuns(w *writer, schedule string, runs []timetable.Run) error {
	for _, r := range runs {
		err := w.exec(`INSERT INTO schedule_runs (schedule, event, due, state, count, note, at) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (schedule, event) DO UPDATE SET state = excluded.state, note = excluded.note, at = excluded.at
			WHERE schedule_runs.state IN ('due', 'made') AND excluded.state <> 'due'`,
			schedule, r.Event, nanos(r.Due), r.State, r.Count, r.Note, nanos(r.At))
		if err != nil {
			return err
		}
	}
	if len(runs) == 0 {
		return nil
	}
	return w.exec(`DELETE FROM schedule_runs WHERE schedule = ? AND state NOT IN ('due', 'made') AND id <=
		(SELECT id FROM schedule_runs WHERE schedule = ? ORDER BY id DESC LIMIT 1 OFFSET ?)`, schedule, schedule, timetable.KeepRuns)
}

// ForgetSchedule implements timetable.Schedules.
func (s *Store) ForgetSchedule(ctx context.Context, name string) error {
	err := s.writer.write(ctx, owned(store.ScheduleOwner, func(w *writer) error {
		return w.exec("DELETE FROM schedules WHERE name = ?", name)
	}))
	if err != nil {
		return fmt.Errorf("forget schedule %s: %w", name, err)
	}
	return nil
}

const (
	runColumns    = "schedule, event, due, state, count, note, at"
	listSchedules = "SELECT name, timing, upto, failures, paused FROM schedules ORDER BY name"
	listOpenRuns  = "SELECT " + runColumns + " FROM schedule_runs WHERE state IN ('due', 'made') ORDER BY id"
	listRuns      = "SELECT " + runColumns + ` FROM schedule_runs WHERE schedule = ?1 AND (?2 = '' OR id < (SELECT id FROM schedule_runs WHERE schedule = ?1 AND event = ?2))
		ORDER BY id DESC LIMIT ?3`
)

// OpenRuns implements timetable.Schedules.
func (s *Store) OpenRuns(ctx context.Context) ([]timetable.Run, error) {
	return list(ctx, s.read, scanRun, listOpenRuns)
}

// ScheduleRuns implements timetable.Schedules.
func (s *Store) ScheduleRuns(ctx context.Context, schedule, before string, limit int) ([]timetable.Run, error) {
	return list(ctx, s.read, scanRun, listRuns, schedule, before, limit)
}

func scanSchedule(scan func(...any) error) (timetable.Schedule, error) {
	var v timetable.Schedule
	var upto int64
	err := scan(&v.Name, &v.Timing, &upto, &v.Failures, &v.Paused)
	v.Upto = instant(upto)
	return v, err
}

func scanRun(scan func(...any) error) (timetable.Run, error) {
	var r timetable.Run
	var due, at int64
	err := scan(&r.Schedule, &r.Event, &due, &r.State, &r.Count, &r.Note, &at)
	r.Due, r.At = instant(due), instant(at)
	return r, err
}
