package storetest

import (
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/store"
)

func usageRow(day int, sender message.SenderKey, agent string, tokens, cost int64) usage.Row {
	at := noon.AddDate(0, 0, day)
	return usage.Row{
		At: at, Day: at.Format(time.DateOnly), Session: message.SessionKey("irc:#flynn:" + agent), Sender: sender, Agent: agent, Tier: "default", Provider: "p", Model: "m",
		Attempt: 1, Input: tokens, Output: 2, CacheRead: 3, CacheWrite: 4, Cost: cost,
	}
}

func spent(key string, calls, failed, input, output, read, write, cost int64) usage.Sum {
	return usage.Sum{Key: key, Calls: calls, Failed: failed, Input: input, Output: output, CacheRead: read, CacheWrite: write, Cost: cost}
}

func usageSums(t *testing.T, open Opener) {
	s := open()
	failed := usageRow(0, "irc:bob", "coder", 100, 30)
	failed.Failure, failed.Estimated, failed.Task, failed.Model = "stream_cut", true, "compaction", "other"
	rows := []usage.Row{usageRow(0, "irc:ann", "helper", 10, 5), usageRow(1, "irc:ann", "coder", 20, 7), failed}
	check(t, s.AddUsage(t.Context(), rows))
	check(t, s.AddUsage(t.Context(), nil))

	s = open()
	got := must[[]usage.Row](t)(s.ListUsage(t.Context(), usage.Filter{}))
	for i := range got {
		if got[i].ID == 0 {
			t.Error("a row has no id")
		}
		got[i].ID = 0
	}
	equal(t, "rows", got, rows)
	latest := must[[]usage.Row](t)(s.ListUsage(t.Context(), usage.Filter{Limit: 1}))
	if len(latest) != 1 || latest[0].Sender != "irc:bob" {
		t.Errorf("the latest row is %+v", latest)
	}
	for _, c := range []struct {
		name   string
		by     usage.Key
		filter usage.Filter
		want   []usage.Sum
	}{
		{"all", usage.All, usage.Filter{}, []usage.Sum{spent("", 3, 1, 130, 6, 9, 12, 42)}},
		{"by sender", usage.BySender, usage.Filter{}, []usage.Sum{spent("irc:bob", 1, 1, 100, 2, 3, 4, 30), spent("irc:ann", 2, 0, 30, 4, 6, 8, 12)}},
		{"by agent", usage.ByAgent, usage.Filter{}, []usage.Sum{spent("coder", 2, 1, 120, 4, 6, 8, 37), spent("helper", 1, 0, 10, 2, 3, 4, 5)}},
		{"by model", usage.ByModel, usage.Filter{Limit: 1}, []usage.Sum{spent("p/other", 1, 1, 100, 2, 3, 4, 30)}},
		{"by task", usage.ByTask, usage.Filter{Limit: 1}, []usage.Sum{spent("compaction", 1, 1, 100, 2, 3, 4, 30)}},
		{"by session since", usage.BySession, usage.Filter{Since: noon.Add(time.Hour)}, []usage.Sum{spent("irc:#flynn:coder", 1, 0, 20, 2, 3, 4, 7)}},
		{"by day", usage.ByDay, usage.Filter{}, []usage.Sum{spent("2026-11-21", 2, 1, 110, 4, 6, 8, 35), spent("2026-11-22", 1, 0, 20, 2, 3, 4, 7)}},
		{"until", usage.All, usage.Filter{Until: noon}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := must[[]usage.Sum](t)(s.SumUsage(t.Context(), c.by, c.filter))
			equal(t, "sums", got, c.want)
		})
	}
	if _, err := s.SumUsage(t.Context(), "id; DROP TABLE usage", usage.Filter{}); err == nil {
		t.Error("a key that there is not is taken")
	}
}

func usageWithStep(t *testing.T, open Opener) {
	s := open()
	in := accept(t, s, "e1")
	row := usageRow(0, "irc:ann", "helper", 10, 5)
	row.Turn, row.Step = "t1", 1
	c := turnlog.Commit{Turn: turn("t1", in.ID), Steps: []turnlog.Step{step(0, turnlog.StepUser, `{}`), step(1, turnlog.StepModel, `{}`)}, Usage: []usage.Row{row}}
	check(t, s.CommitTurn(t.Context(), c))
	wantErr(t, s.CommitTurn(t.Context(), c), store.ErrConflict) // the steps are there, so the usage must not come twice
	got := must[[]usage.Row](t)(open().ListUsage(t.Context(), usage.Filter{Turn: "t1"}))
	if len(got) != 1 || got[0].Tokens() != 19 || got[0].Step != 1 {
		t.Fatalf("usage is %+v", got)
	}
}

// usageSeries sums up two days that are not of the same length.
func usageSeries(t *testing.T, open Opener) {
	s := open()
	rude := message.SenderKey("irc:\x1b[2J\u202e' OR 1")
	free := usageRow(1, "irc:ann", "coder", 40, 0)
	free.Provider = usage.Free
	check(t, s.AddUsage(t.Context(), []usage.Row{
		usageRow(-1, "irc:ann", "helper", 1, 1), usageRow(0, rude, "helper", 10, 50), usageRow(0, "irc:ann", "helper", 20, 0),
		usageRow(0, "irc:cid", "helper", 30, 1), free, usageRow(2, "irc:ann", "helper", 1, 1),
	}))
	s = open()
	bounds := []int64{noon.Add(-time.Hour).UnixNano(), noon.Add(22 * time.Hour).UnixNano(), noon.Add(25 * time.Hour).UnixNano()}
	sum := func(key string, calls, input, cost, unpriced int64) usage.Sum {
		return usage.Sum{Key: key, Calls: calls, Input: input, Output: 2 * calls, CacheRead: 3 * calls, CacheWrite: 4 * calls, Cost: cost, Unpriced: unpriced}
	}
	for _, c := range []struct {
		name   string
		by     usage.Key
		top    int
		filter usage.Filter
		want   []usage.Point
	}{
		{"all", usage.All, 1, usage.Filter{}, []usage.Point{{Span: 0, Sum: sum("", 3, 60, 51, 1)}, {Span: 1, Sum: sum("", 1, 40, 0, 0)}}},
		{"by sender, one of them", usage.BySender, 1, usage.Filter{}, []usage.Point{
			{Span: 0, Sum: sum("", 2, 50, 1, 1), Rest: true}, {Span: 0, Sum: sum(string(rude), 1, 10, 50, 0)}, {Span: 1, Sum: sum("", 1, 40, 0, 0), Rest: true},
		}},
		{"of one sender", usage.ByAgent, 5, usage.Filter{Sender: rude}, []usage.Point{{Span: 0, Sum: sum("helper", 1, 10, 50, 0)}}},
		{"of nobody", usage.ByAgent, 5, usage.Filter{Sender: "irc:nobody"}, []usage.Point{}},
	} {
		got := must[[]usage.Point](t)(s.UsageSeries(t.Context(), c.by, bounds, c.top, c.filter))
		if len(got) == 0 && len(c.want) == 0 {
			continue
		}
		equal(t, c.name, got, c.want)
	}
	if _, err := s.UsageSeries(t.Context(), "sender; DROP TABLE usage", bounds, 1, usage.Filter{}); err == nil {
		t.Error("a key that is none is summed by")
	}
}
