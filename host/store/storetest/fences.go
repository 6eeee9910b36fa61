package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/schedule/timetable"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/sandbox/egress"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// otherHost is one beside store.DefaultHost.
const otherHost = "other"

// A setting is the state that the writes of a conversation find: its messages, a running turn, an unsent reply, a request for approval.
type setting struct {
	at       message.Conversation
	inbox    []int64
	turn     turnlog.Turn
	out      mailbox.OutboxRow
	approval string
}

// settle makes a setting of a conversation on a channel.
func settle(ctx context.Context, s store.Store, channel, id string) (setting, error) {
	v := setting{at: message.Conversation{ID: id, Kind: message.Group}, approval: "approval " + id}
	for i := range 2 {
		m := msg(fmt.Sprint(id, i))
		m.Channel, m.Conversation = channel, v.at
		row, _, err := s.AppendInbox(ctx, m, mailbox.InboxNew, "")
		if err != nil {
			return v, err
		}
		v.inbox = append(v.inbox, row.ID)
	}
	v.turn = turn("turn "+id, v.inbox[0])
	v.turn.Channel, v.turn.Conversation = channel, v.at
	r := reply("reply " + id)
	r.Channel, r.Conversation = channel, v.at
	if err := s.CommitTurn(ctx, turnlog.Commit{Turn: v.turn, Replies: []message.Reply{r}}); err != nil {
		return v, err
	}
	rows, err := s.Replies(ctx, v.turn.ID)
	if err != nil {
		return v, err
	}
	v.out = rows[0]
	return v, s.AddApproval(ctx, consent.Approval{ID: v.approval, Turn: v.turn.ID, State: consent.ApprovalPending, Created: noon, Expires: noon})
}

// A fencedWrite is a kind of write that only an owner may make. n tells one from another; each could succeed.
type fencedWrite struct {
	name string
	key  func(setting) store.OwnerKey // nil: any host that is not fenced out
	do   func(ctx context.Context, s store.Store, v setting, n int) error
}

func ofConversation(v setting) store.OwnerKey {
	return store.ConversationOwner(message.NewConversationKey(v.turn.Channel, v.at.ID))
}
func ofChannel(v setting) store.OwnerKey { return store.ChannelOwner(v.turn.Channel) }
func ofSchedules(setting) store.OwnerKey { return store.ScheduleOwner }
func ofUpkeep(setting) store.OwnerKey    { return store.UpkeepOwner }

var fencedWrites = []fencedWrite{
	{"a step of a turn", ofConversation, func(ctx context.Context, s store.Store, v setting, n int) error {
		return s.CommitTurn(ctx, turnlog.Commit{Turn: v.turn, Steps: []turnlog.Step{step(n, turnlog.StepModel, `{}`)}})
	}},
	{"a message without a turn", ofConversation, func(ctx context.Context, s store.Store, v setting, n int) error {
		if err := s.SetInbox(ctx, v.inbox[1], mailbox.InboxDropped, fmt.Sprint(n)); !errors.Is(err, store.ErrConflict) {
			return err
		}
		return nil // an earlier one has ended it
	}},
	{"a request for approval", ofConversation, func(ctx context.Context, s store.Store, v setting, n int) error {
		return s.AddApproval(ctx, consent.Approval{ID: fmt.Sprint(v.approval, n), Turn: v.turn.ID, State: consent.ApprovalPending})
	}},
	{"the end of a request", ofConversation, func(ctx context.Context, s store.Store, v setting, _ int) error {
		err := s.MoveApproval(ctx, v.approval, consent.ApprovalPending, consent.ApprovalWithdrawn, "", noon)
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		return nil
	}},
	{"a delivery", ofChannel, func(ctx context.Context, s store.Store, v setting, n int) error {
		v.out.Attempts = n
		return s.SetOutbox(ctx, v.out)
	}},
	{"the outcome of a delivery", ofChannel, func(ctx context.Context, s store.Store, v setting, n int) error {
		v.out.Attempts = n
		return s.SettleOutbox(ctx, v.out)
	}},
	{"a draft", ofChannel, func(ctx context.Context, s store.Store, v setting, n int) error {
		return s.PutDraft(ctx, mailbox.Draft{Inbox: v.inbox[0], Key: fmt.Sprint(n), SentAt: noon})
	}},
	{"a draft that is complete", ofChannel, func(ctx context.Context, s store.Store, v setting, _ int) error { return s.DropDraft(ctx, v.inbox[0]) }},
	{"a schedule", ofSchedules, func(ctx context.Context, s store.Store, _ setting, n int) error {
		return s.PutSchedule(ctx, timetable.Schedule{Name: "daily", Failures: n}, []timetable.Run{{Event: fmt.Sprint(n), State: timetable.RunDue, Due: noon}})
	}},
	{"the end of a schedule", ofSchedules, func(ctx context.Context, s store.Store, _ setting, _ int) error {
		return s.ForgetSchedule(ctx, "daily")
	}},
	{"upkeep", ofUpkeep, func(ctx context.Context, s store.Store, _ setting, _ int) error {
		_, err := s.Prune(ctx, store.Retention{Audit: noon})
		return err
	}},
	{"a message", nil, func(ctx context.Context, s store.Store, _ setting, n int) error {
		_, _, err := s.AppendInbox(ctx, msg(fmt.Sprint("m", n)), mailbox.InboxNew, "")
		return err
	}},
	{"a word to somebody", nil, func(ctx context.Context, s store.Store, _ setting, n int) error {
		_, err := s.AddReplies(ctx, "command", []message.Reply{reply(fmt.Sprint("k", n))})
		return err
	}},
	{"a decision", nil, func(ctx context.Context, s store.Store, _ setting, _ int) error {
		return s.AddDecisions(ctx, []journal.Decision{{At: noon, Kind: "tool", Policy: "p"}})
	}},
	{"an audit row", nil, func(ctx context.Context, s store.Store, _ setting, _ int) error {
		return s.AddAudit(ctx, []consent.AuditRow{{At: noon.Add(time.Hour), Kind: consent.AuditGranted}})
	}},
	{"usage", nil, func(ctx context.Context, s store.Store, _ setting, _ int) error {
		return s.AddUsage(ctx, []usage.Row{{At: noon, Agent: "helper"}})
	}},
	{"egress", nil, func(ctx context.Context, s store.Store, _ setting, _ int) error {
		return s.AddEgress(ctx, []egress.Record{{At: noon, Host: "example.org"}})
	}},
	{"a value", nil, func(ctx context.Context, s store.Store, _ setting, n int) error {
		return s.SetValue(ctx, "irc", "k", []byte(fmt.Sprint(n)), store.Room{Keys: 9, Bytes: 999})
	}},
	{"a note", nil, func(ctx context.Context, s store.Store, _ setting, n int) error {
		return s.WriteNote(ctx, memory.Note{Agent: "helper", Key: "cat", Text: fmt.Sprint(n), Updated: noon}, 9)
	}},
	{"a pairing", nil, func(ctx context.Context, s store.Store, _ setting, n int) error {
		_, err := s.PutPairing(ctx, pairings.Pairing{Sender: "irc:zoe", ID: fmt.Sprint(n)}, "", nil)
		return err
	}},
	{"a taking", nil, func(ctx context.Context, s store.Store, _ setting, _ int) error {
		_, err := s.Take(ctx, store.ChannelOwner("nobody's"))
		return err
	}},
}

// kept returns what the writes of some settings change, as text.
func kept(ctx context.Context, s store.Store, of ...setting) (string, error) {
	var all []any
	var errs []error
	read := func(v any, err error) { all, errs = append(all, v), append(errs, err) }
	read(two(s.RunningTurns(ctx)))
	read(two(s.PendingInbox(ctx)))
	read(two(s.UnsentOutbox(ctx)))
	read(two(s.Schedules(ctx)))
	read(two(s.OpenRuns(ctx)))
	read(two(s.ListApprovals(ctx, consent.ApprovalPending, 1000)))
	read(two(s.ListDecisions(ctx, journal.DecisionFilter{})))
	read(two(s.ListAudit(ctx, consent.AuditFilter{})))
	read(two(s.ListUsage(ctx, usage.Filter{})))
	read(two(s.ListEgress(ctx, egress.RecordFilter{})))
	read(two(s.ListValues(ctx, "irc", "", "", 10)))
	read(two(s.SearchNotes(ctx, memory.NoteQuery{})))
	read(two(s.ListPairings(ctx)))
	read(two(s.Owner(ctx, store.ChannelOwner("nobody's"))))
	for _, v := range of {
		read(two(s.Steps(ctx, v.turn.ID)))
	}
	text, err := json.Marshal(all)
	return string(text), errors.Join(append(errs, err)...)
}

func two[T any](v T, err error) (any, error) { return v, err }

// fenced tries a write that must fail and change nothing.
func fenced(t rapid.TB, s store.Store, w fencedWrite, v setting, n int) {
	t.Helper()
	before, err := kept(context.Background(), s, v)
	if err != nil {
		t.Fatalf("a host that was fenced out cannot read: %v", err)
	}
	if err := w.do(context.Background(), s, v, n); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("%s of a host that was fenced out: error is %v, want %v", w.name, err, store.ErrFenced)
	}
	if after, err := kept(context.Background(), s, v); err != nil || after != before {
		t.Fatalf("%s of a host that was fenced out changed %s\nto %s, %v", w.name, before, after, err)
	}
}

func restartFences(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	first := join(store.DefaultHost)
	v := must[setting](t)(settle(t.Context(), first, "irc", "#flynn"))
	for _, w := range fencedWrites {
		check(t, w.do(t.Context(), first, v, 1))
	}
	second := join(store.DefaultHost)
	for _, w := range fencedWrites {
		fenced(t, first, w, v, 2)
	}
	for _, w := range fencedWrites {
		check(t, w.do(t.Context(), second, v, 2))
		fenced(t, first, w, v, 3)
	}
}

func takenOne(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	home, other := join(store.DefaultHost), join(otherHost)
	moved := must[setting](t)(settle(t.Context(), home, "irc", "#flynn"))
	stays := must[setting](t)(settle(t.Context(), home, "matrix", "#rest"))
	for n, w := range fencedWrites {
		if w.key == nil {
			check(t, w.do(t.Context(), home, moved, 10*n))
			check(t, w.do(t.Context(), other, moved, 10*n+1))
			continue
		}
		fenced(t, other, w, moved, 10*n)
		check(t, second(other.Take(t.Context(), w.key(moved))))
		fenced(t, home, w, moved, 10*n)
		check(t, w.do(t.Context(), other, moved, 10*n))
		if w.key(stays) != w.key(moved) {
			check(t, w.do(t.Context(), home, stays, 10*n))
			fenced(t, other, w, stays, 10*n+1)
		}
		check(t, second(home.Take(t.Context(), w.key(moved))))
		fenced(t, other, w, moved, 10*n+1)
		check(t, w.do(t.Context(), home, moved, 10*n+1))
	}
	for _, w := range fencedWrites[:4] { // a host that is started again has what it took
		check(t, second(other.Take(t.Context(), w.key(moved))))
		before := other
		other = join(otherHost)
		fenced(t, before, w, moved, 900)
		fenced(t, home, w, moved, 900)
		check(t, w.do(t.Context(), other, moved, 900))
		check(t, second(home.Take(t.Context(), w.key(moved))))
	}
}

func epochsGrow(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	join := shared(t, t)
	key := store.ChannelOwner("irc")
	var last store.Owner
	grown := func(s store.Store, host string) {
		t.Helper()
		o := must[store.Owner](t)(s.Owner(t.Context(), key))
		if o.Host != host || o.Epoch <= last.Epoch || o.Incarnation == "" || o.Incarnation == last.Incarnation && o.Host != last.Host {
			t.Fatalf("after %+v the owner is %+v, want host %q and a greater epoch", last, o, host)
		}
		last = o
	}
	home := join(store.DefaultHost)
	grown(home, store.DefaultHost)
	for range 3 {
		home = join(store.DefaultHost)
		grown(home, store.DefaultHost)
	}
	other := join(otherHost)
	for range 3 {
		equal(t, "what Take returns", must[store.Owner](t)(other.Take(t.Context(), key)), must[store.Owner](t)(home.Owner(t.Context(), key)))
		grown(home, otherHost)
		other = join(otherHost)
		grown(home, otherHost)
		check(t, second(home.Take(t.Context(), key)))
		grown(other, store.DefaultHost)
	}
}

func second[T any](_ T, err error) error { return err }

// anyOrder makes hosts start, take and write at random, and knows which writes must succeed.
func anyOrder(t *testing.T, shared func(*testing.T, Cleaner) Joiner) {
	type opener struct {
		store.Store
		host string
	}
	hosts := []string{store.DefaultHost, otherHost, "third"}
	rapid.Check(t, func(r *rapid.T) {
		join := shared(t, r)
		all := []opener{{join(store.DefaultHost), store.DefaultHost}}
		var settings []setting
		for _, at := range [][2]string{{"irc", "#flynn"}, {"matrix", "#rest"}} {
			v, err := settle(context.Background(), all[0].Store, at[0], at[1])
			if err != nil {
				r.Fatal(err)
			}
			settings = append(settings, v)
		}
		live := map[string]int{store.DefaultHost: 0} // host to the latest of its openers
		taken := map[store.OwnerKey]string{}
		for n := range rapid.IntRange(1, 25).Draw(r, "steps") {
			i := rapid.IntRange(0, len(all)-1).Draw(r, "opener")
			s, w, v := all[i], rapid.SampledFrom(fencedWrites).Draw(r, "write"), rapid.SampledFrom(settings).Draw(r, "setting")
			alive := live[s.host] == i
			switch rapid.IntRange(0, 7).Draw(r, "what") {
			case 0:
				host := rapid.SampledFrom(hosts).Draw(r, "host")
				live[host] = len(all)
				all = append(all, opener{join(host), host})
			case 1, 2:
				if w.key == nil {
					continue
				}
				if _, err := s.Take(context.Background(), w.key(v)); errors.Is(err, store.ErrFenced) == alive {
					r.Fatalf("%s takes, and is the latest of its host: %v; error is %v", s.host, alive, err)
				}
				if alive {
					taken[w.key(v)] = s.host
				}
			default:
				owner := s.host
				if w.key != nil {
					owner = store.DefaultHost
					if host, is := taken[w.key(v)]; is {
						owner = host
					}
				}
				if !alive || owner != s.host {
					fenced(r, s.Store, w, v, n)
				} else if err := w.do(context.Background(), s.Store, v, n); err != nil {
					r.Fatalf("%s of its owner: %v", w.name, err)
				}
			}
		}
	})
}
