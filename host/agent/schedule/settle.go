package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// maxFailures is the number of consecutive failures after which a schedule is paused.
const maxFailures = 5

// settle checks the state of the run under way.
func (s *Scheduler) settle(ctx context.Context, name string) error {
	r := s.open[name][0]
	e, configured := s.entries[name]
	if r.State == timetable.RunDue {
		if configured {
			return nil
		}
		r.State, r.Note = timetable.RunSkipped, "the schedule is no longer configured"
		return s.end(ctx, r)
	}
	row, err := s.cfg.Store.FindInbox(ctx, message.ScheduleChannel, r.Event)
	switch {
	case errors.Is(err, store.ErrNotFound): // refused during a flood, without a row
		r.State, r.Note = timetable.RunFailed, "it was not admitted"
	case err != nil:
		return err
	case row.State == mailbox.InboxNew:
		return nil
	case row.State == mailbox.InboxDone:
		r.State = timetable.RunDone
	default:
		r.State, r.Note = timetable.RunFailed, row.Note
	}
	if configured && row.ID != 0 {
		if err := s.deliver(ctx, e, &r, row); err != nil {
			return err
		}
	}
	return s.end(ctx, r)
}

// end records how a run ended, and pauses a schedule that keeps failing.
func (s *Scheduler) end(ctx context.Context, r timetable.Run) error {
	r.At = s.cfg.Now()
	k, known := s.known[r.Schedule]
	k.Name = r.Schedule
	switch r.State {
	case timetable.RunDone:
		k.Failures = 0
	case timetable.RunFailed:
		k.Failures++
		s.cfg.Log.Warn("a schedule's run failed", "schedule", r.Schedule, "event", r.Event, "failures", k.Failures, "why", r.Note)
	}
	e, configured := s.entries[r.Schedule]
	paused := k.Failures >= maxFailures && k.Paused == ""
	if paused {
		k.Paused = fmt.Sprintf("it failed %d times in a row", k.Failures)
	}
	if err := s.put(ctx, k, []timetable.Run{r}); err != nil {
		return err
	}
	if !known { // it is no longer configured
		delete(s.known, r.Schedule)
		return s.cfg.Store.ForgetSchedule(ctx, r.Schedule)
	}
	if paused && configured {
		s.cfg.Log.Error("schedule is paused", "schedule", e.Name, "why", k.Paused)
		s.say(ctx, e, "paused/"+r.Event, fmt.Sprintf("Schedule %s is paused: %s. Start it again with `flynn schedule resume %s`.", e.Name, k.Paused, e.Name))
	}
	return nil
}

// deliver sends the answer of a run to the configured conversation once, unless there is nothing to report.
func (s *Scheduler) deliver(ctx context.Context, e Entry, r *timetable.Run, row mailbox.InboxRow) error {
	turn, answer, err := s.answer(ctx, e, row)
	switch {
	case err != nil:
		return err
	case turn.State == turnlog.TurnFailed && r.Note == "":
		r.Note = turn.Error
	case turn.State == turnlog.TurnStopped:
		r.Note = "stopped by a person"
		return nil
	}
	if r.State == timetable.RunDone && quiet(answer.Text, e.Quiet) {
		r.Note = "nothing to say"
		return nil
	}
	if answer.Text == "" && len(answer.Attachments) == 0 {
		return nil
	}
	return s.send(ctx, e, turn.ID, message.Reply{Key: "schedule/" + r.Event, Text: answer.Text, Attachments: answer.Attachments})
}

// lookBack bounds the turns of a schedule that are searched for the answer to a run.
const lookBack = 20

// answer finds the turn that answered a run, and its answer. Both are zero if there is none.
func (s *Scheduler) answer(ctx context.Context, e Entry, row mailbox.InboxRow) (turnlog.Turn, message.Reply, error) {
	turns, err := s.cfg.Store.History(ctx, message.ScheduleChannel, e.Name, lookBack)
	if err != nil {
		return turnlog.Turn{}, message.Reply{}, err
	}
	for _, t := range slices.Backward(turns) {
		if !slices.Contains(t.Inbox, row.ID) {
			continue
		}
		rows, err := s.cfg.Store.Replies(ctx, t.ID)
		if err != nil {
			return t, message.Reply{}, err
		}
		for _, o := range rows {
			if o.Reply.Answers == row.ID {
				return t, o.Reply, nil
			}
		}
		return t, message.Reply{}, nil
	}
	return turnlog.Turn{}, message.Reply{}, nil
}

// quiet reports whether an answer is the word for nothing to report, ignoring case and markup.
func quiet(answer, word string) bool {
	return word != "" && strings.EqualFold(strings.Trim(answer, " \t\r\n*_`\"'.!"), strings.Trim(word, " *_`\"'.!"))
}

// send commits a reply to the conversation that a schedule delivers to. Its key prevents a repetition.
func (s *Scheduler) send(ctx context.Context, e Entry, turn string, r message.Reply) error {
	instance, id, ok := message.ConversationKey(e.Deliver).Cut()
	if !ok {
		return nil
	}
	r.Channel, r.Conversation = instance, message.Conversation{ID: id, Kind: message.DM}
	fresh, err := s.cfg.Store.AddReplies(ctx, turn, []message.Reply{r})
	if err != nil {
		return fmt.Errorf("deliver an answer of schedule %s: %w", e.Name, err)
	}
	for _, f := range fresh {
		s.cfg.Replied(turn, f)
	}
	return nil
}

// say sends people a message about a schedule. A failure is logged.
func (s *Scheduler) say(ctx context.Context, e Entry, key, text string) {
	if err := s.send(ctx, e, "schedule-"+e.Name, message.Reply{Key: "schedule/" + key, Text: text}); err != nil {
		s.cfg.Log.Error("report on a schedule", "schedule", e.Name, "error", err)
	}
}

// report reports missed or skipped runs: to the log each time, and to the conversation once for each gap.
func (s *Scheduler) report(ctx context.Context, e Entry, runs []timetable.Run) {
	for _, r := range runs {
		last := r.Due.Format("2006-01-02 15:04 MST")
		switch r.State {
		case timetable.RunMissed:
			s.cfg.Log.Warn("runs of a schedule were missed", "schedule", e.Name, "count", r.Count, "last", r.Due.Format(time.RFC3339), "catch_up", e.CatchUp)
			s.say(ctx, e, r.Event, fmt.Sprintf("Schedule %s: %s missed, the last of %s.", e.Name, times(r.Count), last))
		case timetable.RunSkipped:
			s.cfg.Log.Warn("runs of a schedule were skipped", "why", r.Note, "schedule", e.Name, "count", r.Count, "last", r.Due.Format(time.RFC3339))
			during := r.Event
			if open := s.open[e.Name]; len(open) > 0 {
				during = "skipped/" + open[0].Event
			}
			s.say(ctx, e, during, fmt.Sprintf("Schedule %s: the run of %s was skipped, because %s.", e.Name, last, r.Note))
		}
	}
}

func times(n int) string {
	if n == 1 {
		return "one run was"
	}
	return fmt.Sprintf("%d runs were", n)
}
