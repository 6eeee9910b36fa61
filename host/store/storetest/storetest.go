// Package storetest is the suite that every store back end passes.
//
// Start with Run. It tests what the comments of package store and of the leaf packages promise.
package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/policy/journal"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// Opener opens the same durable state each time it is called within one test; a call closes what
// the one before it opened.
type Opener func() store.Store

// Joiner opens the same durable state each time it is called within one test, as a new incarnation of a host. Stores that it opened
// before stay open.
type Joiner func(host string) store.Store

// Cleaner registers functions to call when a test is over.
type Cleaner interface{ Cleanup(func()) }

// Run checks a back end. fresh starts empty state for each subtest, and so does shared, which closes it at the end of c.
func Run(t *testing.T, fresh func(t *testing.T) Opener, shared func(t *testing.T, c Cleaner) Joiner) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Opener)
	}{
		{"an event is accepted once", acceptedOnce},
		{"pending rows come back in order", pendingInOrder},
		{"a row is ended once", endedOnce},
		{"a turn advances step by step", turnAdvances},
		{"two turns cannot answer one message", oneAnswer},
		{"a failed commit leaves nothing", commitIsAtomic},
		{"an ended turn is closed", endedTurnIsClosed},
		{"transcript and history", transcriptAndHistory},
		{"a call makes one child", oneChild},
		{"a scope begins anew and keeps what was chosen", scopes},
		{"a command is carried out once", settledOnce},
		{"the kill switch is kept", halts},
		{"a whole session is put and removed", archive},
		{"what a deletion takes and what it leaves", deletions},
		{"a deletion waits for what runs", deletionsWait},
		{"commands go with their sessions and with time", commandsGo},
		{"an order deletes with its reply", orderedDeletion},
		{"a reply leaves the outbox once", outboxLife},
		{"a reply that no turn brings is added once", addedReplies},
		{"a reply goes in parts", partsAreKept},
		{"a draft is kept until nothing completes it", draftsAreKept},
		{"a note waits for a turn", notesWait},
		{"what was said earlier is found", earlierIsFound},
		{"an approval moves once", approvalMoves},
		{"a grant is used until it ends", grantLife},
		{"each use of a grant counts", grantsAreCounted},
		{"an elevation ends once", elevationLife},
		{"the audit log is filtered", auditLog},
		{"a pairing is kept with its reply", pairingsAreKept},
		{"a private chat is found by its person", privateChatsAreFound},
		{"what is past its time goes", prunes},
		{"wrong codes are counted", guessesAreKept},
		{"a code signs in once", signInsAreKept},
		{"what belongs to a sender is found", ownIsFound},
		{"notes are found by their words", notes},
		{"notes of a person are kept apart", notesOfPersons},
		{"notes are bounded", notesAreBounded},
		{"notes are mended", notesAreMended},
		{"notes come in pages", notesComeInPages},
		{"notes are forgotten", notesAreForgotten},
		{"a turn's facts are taken once", extractions},
		{"a summary comes with its turn", summaries},
		{"a whole result is kept for its session", keptResults},
		{"decisions are filtered", decisions},
		{"a turn leaves one trail", trails},
		{"turns and messages without one are listed", turnList},
		{"the latest decisions are listed", listedDecisions},
		{"the egress log is filtered", egressLog},
		{"the egress of a person is found", egressOfAPerson},
		{"what was said is searched", searchSaid},
		{"usage is summed up", usageSums},
		{"usage comes in series", usageSeries},
		{"usage is committed with its step", usageWithStep},
		{"any number of decisions can be gone over", eachDecision},
		{"shadow policies leave differences and counts", shadows},
		{"the history of policies is in order", policyHistory},
		{"values of instances are kept apart", values},
		{"values are listed in byte order", valuesInOrder},
		{"values are bounded", valuesAreBounded},
		{"what values take is known", valueUsage},
		{"the history of policies is bounded", policyHistoryIsBounded},
		{"the latest decisions of a policy are found", latestDecisions},
		{"a digest of a policy stays what it was", policyModules},
		{"schedules remember what was due", schedules},
		{"a blob is whole or not there", blobs},
		{"blobs that nothing names go", blobsGo},
		{"writers side by side", manyWriters},
		{"awkward text survives", awkwardText},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, fresh(t)) })
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, func(*testing.T, Cleaner) Joiner)
	}{
		{"a host that is started again fences itself out", restartFences},
		{"what one host takes the other cannot write", takenOne},
		{"an epoch only grows", epochsGrow},
		{"hosts come, take and write in any order", anyOrder},
		{"only keys of the dead are claimed", claims},
		{"work of an earlier epoch writes nothing", earlierEpochs},
		{"what a host had from the beginning can be given up", givenUp},
		{"the owner of a key hears of its work", signals},
		{"hosts hear of what others have admitted", counts},
		{"a host waits until its predecessor cannot act", waitsForItself},
		{"what all hosts must know is counted", controls},
		{"a host that was replaced is no member", fencedMembers},
		{"hosts are listed with what they own", hostsAreListed},
		{"hosts that listen for others are known", peersAreKnown},
		{"a host that is drained gets no keys", drains},
		{"all hosts that are alive agree on a revision", agrees},
		{"a revision is refused", refuses},
		{"a host that has not taken a revision gets no keys", untaken},
		{"revisions at random", revisionsAtRandom},
		{"a host whose digests differ gets no keys", differs},
		{"only a dead host is removed", removals},
		{"what dead hosts lose is recorded", takeovers},
		{"sandboxes are taken over by the host of their conversation", sandboxes},
		{"the host of a workspace is known", workspaces},
		{"parts are changed by one host at a time", parts},
		{"digests follow changed parts", follows},
		{"a file is given to the host that wants it", wantedFiles},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, shared) })
	}
}

// noon is a time without the parts that a back end may drop.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func msg(id string) message.Message {
	return message.Message{
		Channel: "irc", EventID: id, Text: "hello " + id, SentAt: noon, ReceivedAt: noon.Add(time.Second), Addressed: true,
		Conversation: message.Conversation{ID: "#flynn", Kind: message.Group},
		Sender:       message.Sender{ID: "ann", Name: "Ann", Account: "ann@home"},
	}
}

func turn(id string, inbox ...int64) turnlog.Turn {
	return turnlog.Turn{
		ID: id, Session: "irc:#flynn:helper", Agent: "helper", Channel: "irc", Sender: "irc:ann",
		Conversation: message.Conversation{ID: "#flynn", Kind: message.Group},
		Inbox:        inbox, State: turnlog.TurnRunning, Started: noon,
	}
}

func step(seq int, kind turnlog.StepKind, data string) turnlog.Step {
	return turnlog.Step{Seq: seq, Kind: kind, Data: json.RawMessage(data), At: noon.Add(time.Duration(seq))}
}

func reply(key string) message.Reply {
	return message.Reply{Key: key, Channel: "irc", Conversation: message.Conversation{ID: "#flynn", Kind: message.Group}, Text: "hi"}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s differs (-want +got):\n%s", what, d)
	}
}

func accept(t *testing.T, s store.Store, id string) mailbox.InboxRow {
	t.Helper()
	row, fresh, err := s.AppendInbox(t.Context(), msg(id), mailbox.InboxNew, "")
	check(t, err)
	if !fresh {
		t.Fatalf("event %s was there already", id)
	}
	return row
}

func acceptedOnce(t *testing.T, open Opener) {
	s := open()
	first := accept(t, s, "e1")
	again, fresh, err := s.AppendInbox(t.Context(), msg("e1"), mailbox.InboxNew, "")
	check(t, err)
	if fresh || again.ID != first.ID {
		t.Fatalf("second delivery: fresh=%v id=%d, want the first row %d", fresh, again.ID, first.ID)
	}
	other := msg("e1")
	other.Channel = "irc2"
	if _, fresh, err = s.AppendInbox(t.Context(), other, mailbox.InboxNew, ""); err != nil || !fresh {
		t.Fatalf("same event id on another channel: fresh=%v err=%v", fresh, err)
	}
	s = open() // the memory of what was accepted survives
	if _, fresh, err = s.AppendInbox(t.Context(), msg("e1"), mailbox.InboxNew, ""); err != nil || fresh {
		t.Fatalf("after reopening: fresh=%v err=%v", fresh, err)
	}
}

func pendingInOrder(t *testing.T, open Opener) {
	s := open()
	for i := range 20 {
		accept(t, s, fmt.Sprint("e", i))
	}
	_, _, err := s.AppendInbox(t.Context(), msg("old"), mailbox.InboxStale, "sent 30h ago")
	check(t, err)
	rows := must[[]mailbox.InboxRow](t)(open().PendingInbox(t.Context()))
	if len(rows) != 20 {
		t.Fatalf("%d rows are pending, want 20", len(rows))
	}
	for i, r := range rows {
		equal(t, "row", r.Message, msg(fmt.Sprint("e", i)))
	}
}

func endedOnce(t *testing.T, open Opener) {
	s := open()
	row := accept(t, s, "e1")
	check(t, s.SetInbox(t.Context(), row.ID, mailbox.InboxDropped, "not on the list"))
	wantErr(t, s.SetInbox(t.Context(), row.ID, mailbox.InboxDone, ""), store.ErrConflict)
	wantErr(t, s.SetInbox(t.Context(), 999, mailbox.InboxDone, ""), store.ErrConflict)
	if rows := must[[]mailbox.InboxRow](t)(s.PendingInbox(t.Context())); len(rows) != 0 {
		t.Fatalf("%d rows are pending, want none", len(rows))
	}
}

func turnAdvances(t *testing.T, open Opener) {
	s := open()
	in := accept(t, s, "e1")
	tn := turn("t1", in.ID)
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn, Steps: []turnlog.Step{step(0, turnlog.StepUser, `{"text":"hi"}`), step(1, turnlog.StepModel, `{}`)}}))

	s = open() // as after a crash
	running := must[[]turnlog.Turn](t)(s.RunningTurns(t.Context()))
	equal(t, "running turns", running, []turnlog.Turn{tn})
	equal(t, "running in the session", must[[]string](t)(s.RunningIn(t.Context(), tn.Session, 1)), []string{tn.ID})
	if ids := must[[]string](t)(s.RunningIn(t.Context(), message.SessionKey(tn.Session+"x"), 1)); len(ids) != 0 {
		t.Fatalf("in another session run %v", ids)
	}
	if rows := must[[]mailbox.InboxRow](t)(s.PendingInbox(t.Context())); len(rows) != 1 {
		t.Fatalf("%d rows are pending while the turn runs, want 1", len(rows))
	}
	tn.State, tn.Ended = turnlog.TurnDone, noon.Add(time.Minute)
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{
		Turn: tn, Steps: []turnlog.Step{step(2, turnlog.StepModel, `{"n":2}`)}, InboxState: mailbox.InboxDone,
		Replies: []message.Reply{reply("t1/0")}, Decisions: []journal.Decision{{At: noon, Kind: "route", Policy: "p"}},
	}))
	steps := must[[]turnlog.Step](t)(s.Steps(t.Context(), "t1"))
	if len(steps) != 3 || string(steps[2].Data) != `{"n":2}` || steps[1].Kind != turnlog.StepModel || !steps[2].At.Equal(noon.Add(2)) {
		t.Fatalf("steps are %+v", steps)
	}
	if rows := must[[]mailbox.InboxRow](t)(s.PendingInbox(t.Context())); len(rows) != 0 {
		t.Fatalf("%d rows are pending after the turn, want none", len(rows))
	}
	if out := must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context())); len(out) != 1 || out[0].Turn != "t1" {
		t.Fatalf("outbox is %+v", out)
	}
	if ds := must[[]journal.Decision](t)(s.ListDecisions(t.Context(), journal.DecisionFilter{Turn: "t1"})); len(ds) != 1 {
		t.Fatalf("%d decisions of the turn, want 1", len(ds))
	}
	if running := must[[]turnlog.Turn](t)(s.RunningTurns(t.Context())); len(running) != 0 {
		t.Fatalf("turns still run: %+v", running)
	}
	if ids := must[[]string](t)(s.RunningIn(t.Context(), tn.Session, 1)); len(ids) != 0 {
		t.Fatalf("turns still run in the session: %v", ids)
	}
}

func oneAnswer(t *testing.T, open Opener) {
	s := open()
	in := accept(t, s, "e1")
	a, b := turn("a", in.ID), turn("b", in.ID)
	a.State, b.State = turnlog.TurnDone, turnlog.TurnDone
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: a, InboxState: mailbox.InboxDone, Replies: []message.Reply{reply("a")}}))
	wantErr(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: b, InboxState: mailbox.InboxDone, Replies: []message.Reply{reply("b")}}), store.ErrConflict)
	if out := must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context())); len(out) != 1 {
		t.Fatalf("%d replies, want 1", len(out))
	}
	if h := must[[]turnlog.Turn](t)(s.History(t.Context(), "irc", "#flynn", 10)); len(h) != 1 {
		t.Fatalf("%d turns are kept, want only the one that answered", len(h))
	}
}

func commitIsAtomic(t *testing.T, open Opener) {
	s := open()
	in := accept(t, s, "e1")
	tn := turn("t1", in.ID)
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn, Steps: []turnlog.Step{step(0, turnlog.StepUser, `{}`)}}))
	tn.State = turnlog.TurnDone
	err := s.CommitTurn(t.Context(), turnlog.Commit{
		Turn: tn, InboxState: mailbox.InboxDone, Replies: []message.Reply{reply("r")}, Steps: []turnlog.Step{step(0, turnlog.StepModel, `{"again":true}`)},
	})
	wantErr(t, err, store.ErrConflict)
	if out := must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context())); len(out) != 0 {
		t.Fatalf("outbox has %d rows of a commit that failed", len(out))
	}
	if running := must[[]turnlog.Turn](t)(s.RunningTurns(t.Context())); len(running) != 1 {
		t.Fatalf("%d turns run, want the one before the failed commit", len(running))
	}
}

func endedTurnIsClosed(t *testing.T, open Opener) {
	s := open()
	tn := turn("t1")
	tn.State = turnlog.TurnStopped
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn}))
	tn.State = turnlog.TurnRunning
	wantErr(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn, Steps: []turnlog.Step{step(0, turnlog.StepUser, `{}`)}}), store.ErrConflict)
}

func transcriptAndHistory(t *testing.T, open Opener) {
	s := open()
	for i := range 5 {
		tn := turn(fmt.Sprint("t", i))
		tn.Started = noon.Add(time.Duration(i) * time.Minute)
		tn.State = turnlog.TurnDone
		if i == 3 {
			tn.Session, tn.Agent = "irc:#flynn:coder", "coder"
		}
		check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn, Steps: []turnlog.Step{step(0, turnlog.StepUser, fmt.Sprint(i)), step(1, turnlog.StepModel, "0")}}))
	}
	bare := turn("t5") // could not even begin
	bare.Session, bare.State = "irc:#flynn:helper", turnlog.TurnFailed
	bare.Channel, bare.Started = "elsewhere", noon.Add(5*time.Minute)
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: bare}))
	var got []string
	for _, st := range must[[]turnlog.Step](t)(s.Transcript(t.Context(), "irc:#flynn:helper", 3)) {
		got = append(got, fmt.Sprint(st.Turn, ".", st.Seq))
	}
	equal(t, "transcript", got, []string{"t1.0", "t1.1", "t2.0", "t2.1", "t4.0", "t4.1"})
	h := must[[]turnlog.Turn](t)(s.History(t.Context(), "irc", "#flynn", 2))
	if len(h) != 2 || h[0].ID != "t3" || h[1].ID != "t4" {
		t.Fatalf("history is %+v", h)
	}
	first := must[[]turnlog.Turn](t)(s.FirstTurns(t.Context(), "irc", "#flynn", 2))
	if len(first) != 2 || first[0].ID != "t0" || first[1].ID != "t1" {
		t.Fatalf("it begins with %+v", first)
	}
	all := must[[]turnlog.Session](t)(s.Sessions(t.Context(), 10))
	equal(t, "sessions", all, []turnlog.Session{
		{Key: "irc:#flynn:helper", Agent: "helper", Turns: 5, Last: noon.Add(5 * time.Minute)},
		{Key: "irc:#flynn:coder", Agent: "coder", Turns: 1, Last: noon.Add(3 * time.Minute)},
	})
	equal(t, "session", must[turnlog.Session](t)(s.Session(t.Context(), "irc:#flynn:coder")), all[1])
	_, err := s.Session(t.Context(), "nobody")
	wantErr(t, err, store.ErrNotFound)
}

func outboxLife(t *testing.T, open Opener) {
	s := open()
	tn := turn("t1")
	tn.State = turnlog.TurnDone
	check(t, s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn, Replies: []message.Reply{reply("k1"), reply("k2")}}))
	row := must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context()))[0]
	row.State, row.Attempts, row.NextTry, row.Pause, row.Note = mailbox.OutboxSending, 1, noon, time.Minute, "try"
	row.Reply.PossibleDuplicate, row.Reply.Resume = true, "12/3"
	check(t, s.SetOutbox(t.Context(), row))

	s = open()
	rows := must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context()))
	if len(rows) != 2 {
		t.Fatalf("%d rows are unsent, want 2", len(rows))
	}
	equal(t, "row", rows[0], row)
	row.State, row.PlatformIDs = mailbox.OutboxSent, []string{"m1", "m2"}
	set := s.SetOutbox
	if by, ok := s.(mailbox.Settler); ok {
		set = by.SettleOutbox
	}
	check(t, set(t.Context(), row))
	wantErr(t, set(t.Context(), row), store.ErrConflict)
	row.State = mailbox.OutboxPending
	wantErr(t, s.SetOutbox(t.Context(), row), store.ErrConflict)
	sent := must[[]mailbox.OutboxRow](t)(s.Replies(t.Context(), "t1"))
	if len(sent) != 2 || sent[0].State != mailbox.OutboxSent || !slices.Equal(sent[0].PlatformIDs, []string{"m1", "m2"}) {
		t.Fatalf("replies are %+v", sent)
	}
	tn.ID = "t2"
	if err := s.CommitTurn(t.Context(), turnlog.Commit{Turn: tn, Replies: []message.Reply{reply("k1")}}); err == nil {
		t.Fatal("a reply with a key that is taken was accepted")
	}
}

func addedReplies(t *testing.T, open Opener) {
	s := open()
	if fresh := must[[]message.Reply](t)(s.AddReplies(t.Context(), "c1", []message.Reply{reply("k1")})); len(fresh) != 1 {
		t.Fatalf("%d replies are fresh, want 1", len(fresh))
	}
	s = open()
	fresh := must[[]message.Reply](t)(s.AddReplies(t.Context(), "c1", []message.Reply{reply("k1"), reply("k2")}))
	if len(fresh) != 1 || fresh[0].Key != "k2" {
		t.Fatalf("fresh are %+v, want k2 alone", fresh)
	}
	rows := must[[]mailbox.OutboxRow](t)(s.UnsentOutbox(t.Context()))
	if len(rows) != 2 || rows[0].Turn != "c1" || rows[0].State != mailbox.OutboxPending {
		t.Fatalf("outbox is %+v", rows)
	}
}

func approvalMoves(t *testing.T, open Opener) {
	s := open()
	a := consent.Approval{
		ID: "a1", Turn: "t1", Session: "s", Agent: "helper", Requester: "irc:ann", Tool: "shell.exec", Args: json.RawMessage(`{"command":"ls"}`),
		Where: "host", Policy: "d", Reasons: []string{"runs on the host"}, State: consent.ApprovalPending, Created: noon, Expires: noon.Add(time.Minute),
	}
	check(t, s.AddApproval(t.Context(), a))
	wantErr(t, s.AddApproval(t.Context(), a), store.ErrConflict)
	s = open()
	equal(t, "approval", must[consent.Approval](t)(s.Approval(t.Context(), "a1")), a)
	check(t, s.MoveApproval(t.Context(), "a1", consent.ApprovalPending, consent.ApprovalGranted, "web:owner", noon.Add(time.Second)))
	wantErr(t, s.MoveApproval(t.Context(), "a1", consent.ApprovalPending, consent.ApprovalDenied, "irc:bob", noon), store.ErrConflict)
	a.State, a.Decider, a.Decided = consent.ApprovalGranted, "web:owner", noon.Add(time.Second)
	equal(t, "granted", must[[]consent.Approval](t)(s.ListApprovals(t.Context(), consent.ApprovalGranted, 10)), []consent.Approval{a})
	if p := must[[]consent.Approval](t)(s.ListApprovals(t.Context(), consent.ApprovalPending, 10)); len(p) != 0 {
		t.Fatalf("pending: %+v", p)
	}
	_, err := s.Approval(t.Context(), "none")
	wantErr(t, err, store.ErrNotFound)
}

func decisions(t *testing.T, open Opener) {
	s := open()
	d := journal.Decision{
		At: noon, Kind: "tool", Turn: "t1", Policy: "guard", Digest: "d", File: "f", Frame: []byte{0, 1, 255}, Calls: json.RawMessage(`[]`),
		Text: "a long text \x00 \xff", Args: json.RawMessage(`{"n":1}`), Raw: -5, Rule: 1<<24 - 1,
		Answer: "deny", Reason: "no", Error: "fuel", Fuel: 12, Nanos: 345,
	}
	e := d
	e.Kind, e.Policy, e.At = "route", "hours", noon.Add(time.Hour)
	check(t, s.AddDecisions(t.Context(), []journal.Decision{d, e}))
	got := must[[]journal.Decision](t)(open().ListDecisions(t.Context(), journal.DecisionFilter{Policy: "guard"}))
	if len(got) != 1 || got[0].ID == 0 {
		t.Fatalf("decisions are %+v", got)
	}
	got[0].ID = 0
	equal(t, "decision", got[0], d)
	if late := must[[]journal.Decision](t)(open().ListDecisions(t.Context(), journal.DecisionFilter{Since: noon.Add(time.Minute)})); len(late) != 1 || late[0].Policy != "hours" {
		t.Fatalf("late decisions are %+v", late)
	}
}

// manyWriters checks that writes which share a group keep apart: each failing one fails alone.
func manyWriters(t *testing.T, open Opener) {
	s := open()
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for w := range 8 {
		wg.Go(func() {
			for i := range 50 {
				row, f, err := s.AppendInbox(context.Background(), msg(fmt.Sprint("e", i)), mailbox.InboxNew, "")
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				tn := turn(fmt.Sprintf("t%d-%d", w, i), row.ID)
				tn.State = turnlog.TurnDone
				err = s.CommitTurn(context.Background(), turnlog.Commit{Turn: tn, InboxState: mailbox.InboxDone})
				if err != nil && !errors.Is(err, store.ErrConflict) {
					t.Errorf("writer %d: %v", w, err)
				}
				mu.Lock()
				if f {
					fresh++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if fresh != 50 {
		t.Fatalf("%d events were fresh, want 50", fresh)
	}
	if h := must[[]turnlog.Turn](t)(s.History(t.Context(), "irc", "#flynn", 1000)); len(h) != 50 {
		t.Fatalf("%d turns ended an inbox row, want 50", len(h))
	}
}

func awkwardText(t *testing.T, open Opener) {
	s := open()
	m := msg("e\x00'\"; DROP TABLE inbox; --")
	m.Text = "NUL \x00, quote ', emoji 🦉, combining é, and 200 KiB: " + string(make([]byte, 200<<10))
	_, fresh, err := s.AppendInbox(t.Context(), m, mailbox.InboxNew, "")
	check(t, err)
	if !fresh {
		t.Fatal("not fresh")
	}
	rows := must[[]mailbox.InboxRow](t)(open().PendingInbox(t.Context()))
	equal(t, "message", rows[0].Message, m)
}
