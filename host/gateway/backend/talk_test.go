package backend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/approval"
)

// talk is a store with conversations.
type talk struct {
	t     *testing.T
	store *sqlite.Store
	backend.Conversations
	last string
	now  time.Time
}

var owner = gateway.Caller{Sender: "web:owner", Role: route.Owner}

type noTurns struct{}

func (noTurns) RunningIn(message.ConversationKey) bool { return false }
func (noTurns) StopIn(message.ConversationKey) bool    { return false }

// noFiles are empty workspaces.
type noFiles struct{ session.Files }

func (noFiles) CopyWorkspace(context.Context, message.WorkspaceKey, message.WorkspaceKey, []string) (snapshot.Copied, error) {
	return snapshot.Copied{}, nil
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	s, err := sqlite.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	approvals, err := approval.New(approval.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	keeper := session.NewKeeper(session.Config{Store: s, Files: noFiles{}})
	return &talk{t: t, store: s, Conversations: backend.Conversations{Store: s, Approvals: approvals, Turns: noTurns{}, Keeper: keeper}, now: time.Now().Add(-time.Hour)}
}

// turn commits a turn with a number of tool calls, and returns its id.
func (k *talk) turn(key message.SessionKey, conversation, event, said, answer string, calls int) string {
	k.t.Helper()
	k.now = k.now.Add(time.Second)
	k.last = store.NewIDAfter(k.last, k.now)
	t := turnlog.Turn{
		ID: k.last, Session: key, Agent: key.Parse().Agent, Channel: "web", Conversation: message.Conversation{ID: conversation, Kind: message.DM},
		Sender: "web:owner", State: turnlog.TurnDone, Started: k.now, Ended: k.now,
	}
	var steps []turnlog.Step
	add := func(kind turnlog.StepKind, record any) {
		steps = append(steps, turnlog.Step{Turn: t.ID, Seq: len(steps), Kind: kind, Data: transcript.Encode(record), At: k.now})
	}
	add(turnlog.StepUser, transcript.UserStep{Said: []transcript.Said{{Event: event, Text: said, At: k.now}}, Labels: []string{"web.page"}})
	if calls > 0 {
		var asked []model.ToolCall
		for i := range calls {
			asked = append(asked, model.ToolCall{ID: fmt.Sprint("c", i), Name: "files.read", Args: []byte(`{"path":"a"}`)})
		}
		add(turnlog.StepModel, model.Response{Message: model.Message{Role: model.Assistant, Calls: asked}, Stop: "tools"})
		for _, c := range asked {
			start := transcript.ToolStart{Call: c.ID, Tool: c.Name, Args: c.Args, Decision: "allow"}
			add(turnlog.StepToolStart, start)
			add(turnlog.StepToolResult, transcript.ToolResult{ToolStart: start, Result: tool.Result{Text: "```\nfenced " + c.ID}})
		}
	}
	add(turnlog.StepModel, model.Response{Message: model.Message{Role: model.Assistant, Text: answer}, Stop: model.StopEnd})
	if err := k.store.CommitTurn(k.t.Context(), turnlog.Commit{Turn: t, Steps: steps}); err != nil {
		k.t.Fatal(err)
	}
	return t.ID
}

// texts reads all pages of entries, and returns them from the first to the last.
func (k *talk) texts(conversation string, limit int) []string {
	k.t.Helper()
	var all []string
	for cursor, pages := "", 0; ; pages++ {
		page, err := k.Entries(k.t.Context(), "web", conversation, cursor, limit)
		if err != nil || len(page.Items) > limit || len(page.Items) == 0 && pages > 0 || pages > 1000 {
			k.t.Fatalf("%v: page %d of %d entries", err, pages, len(page.Items))
		}
		var texts []string
		for _, e := range page.Items {
			texts = append(texts, string(e.From)+" "+e.Text)
		}
		all = append(texts, all...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

func TestEntriesByPages(t *testing.T) {
	k := newTalk(t)
	for i := range 120 {
		k.turn("web:a:main", "a", fmt.Sprint("e", i), fmt.Sprint("question ", i), fmt.Sprint("answer ", i), i%4)
	}
	m := message.Message{Channel: "web", EventID: "late", Conversation: message.Conversation{ID: "a"}, Sender: message.Sender{ID: "owner"}, Text: "still waits"}
	if _, _, err := k.store.AppendInbox(t.Context(), m, mailbox.InboxNew, ""); err != nil {
		t.Fatal(err)
	}
	want := k.texts("a", 500)
	if len(want) != 120*2+30*(1+2+3)+1 || want[len(want)-1] != "user still waits" || want[0] != "user question 0" {
		t.Fatalf("%d entries, from %q to %q", len(want), want[0], want[len(want)-1])
	}
	for _, limit := range []int{1, 2, 3, 7, 100, 420, 421, 422} {
		if got := k.texts("a", limit); !slices.Equal(got, want) {
			t.Errorf("by %d there are %d entries, want %d", limit, len(got), len(want))
		}
	}
	if got := k.texts("none", 5); len(got) != 0 {
		t.Errorf("a conversation of nothing has %q", got)
	}
	for _, cursor := range []string{"x", ".", "1", k.last, k.last + ".-1", k.last + ".x", "'; --.1"} {
		if _, err := k.Entries(t.Context(), "web", "a", cursor, 5); !errors.Is(err, gateway.ErrBadCursor) {
			t.Errorf("%q: %v", cursor, err)
		}
	}
}

func TestForkAndTitle(t *testing.T) {
	k := newTalk(t)
	k.turn("web:a:main", "a", "e1", "  the\nfirst   words", "one", 2)
	k.turn("web:a:main#2", "a", "e2", "second", "two", 0)
	two := k.last
	k.turn("web:a:other#2", "a", "e3", "third", "three", 0)
	all := k.texts("a", 500)
	title := func(id string) string {
		list, err := k.Conversations.Conversations(t.Context(), gateway.ConversationFilter{})
		i := slices.IndexFunc(list.Items, func(c gateway.ConversationInfo) bool { return c.ID == id })
		if err != nil || i < 0 {
			t.Fatalf("%s is not listed: %v", id, err)
		}
		return list.Items[i].Title
	}
	for _, c := range []struct {
		fork gateway.Fork
		left int // entries
	}{
		{gateway.Fork{Entry: "e3"}, len(all)},
		{gateway.Fork{Entry: "e3", Before: true}, len(all) - 2},
		{gateway.Fork{Entry: two + "/0"}, len(all) - 2},
		{gateway.Fork{Entry: two + "/0", Before: true}, len(all) - 4},
		{gateway.Fork{Entry: "e1", Before: true}, 0},
	} {
		to, err := k.Fork(t.Context(), "web", "a", c.fork, owner)
		if err != nil {
			t.Errorf("%+v: %v", c.fork, err)
			continue
		}
		if got := k.texts(to.ID, 500); !slices.Equal(got, all[:c.left]) {
			t.Errorf("%+v: %q, want %q", c.fork, got, all[:c.left])
		}
		if c.left == len(all) {
			if got := title(to.ID); got != "the first words" {
				t.Errorf("the fork is called %q", got)
			}
			turns, err := k.store.SessionTurns(t.Context(), message.SessionKey("web:"+to.ID+":main"))
			if err != nil || len(turns) != 1 {
				t.Fatalf("the fork has %d turns in its first session, %v", len(turns), err)
			}
			steps, err := k.store.Steps(t.Context(), turns[0].ID)
			if err != nil || !bytes.Contains(steps[0].Data, []byte("web.page")) {
				t.Errorf("the fork lost its labels: %s, %v", steps[0].Data, err)
			}
			if scope, err := k.store.Scope(t.Context(), "web:"+to.ID); err != nil || scope.Epoch != 2 {
				t.Errorf("the fork is at its session %d, %v", scope.Epoch, err)
			}
		}
	}
	for _, c := range []struct{ conversation, entry string }{{"a", "none"}, {"a", "'"}, {"none", "e1"}} {
		if _, err := k.Fork(t.Context(), "web", c.conversation, gateway.Fork{Entry: c.entry}, owner); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v: %v", c, err)
		}
	}

	if err := k.Rename(t.Context(), "web", "a", " My <b>\u202e talk \n"); err != nil {
		t.Fatal(err)
	}
	if got := title("a"); got != "My <b>\u202e talk" {
		t.Errorf("after it was renamed it is called %q", got)
	}
	if err := k.Rename(t.Context(), "web", "none", "x"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("rename nothing: %v", err)
	}
	hits, err := k.Search(t.Context(), "second", "", "", 10)
	if err != nil || len(hits.Items) != 4 || hits.Items[3].Title != "My <b>\u202e talk" || hits.Items[3].Key != "e2" {
		t.Errorf("search: %+v, %v", hits, err)
	}
}

func TestExportConversation(t *testing.T) {
	k := newTalk(t)
	k.turn("web:a:main", "a", "e1", "# no heading\r\n## nor this", "*answer*", 1)
	k.turn("web:a:main#2", "a", "e2", "again", "yes", 0)
	var text bytes.Buffer
	if err := k.Export(t.Context(), "web", "a", true, &text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# # no heading ## nor this\n", "> # no heading\n> ## nor this\n", "````text\n```\nfenced c0\n````", "*answer*"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the export lacks %q:\n%s", want, &text)
		}
	}
	text.Reset()
	if err := k.Export(t.Context(), "web", "a", false, &text); err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(text.String(), `{"flynn_session":2,"key":"web:a:main#2"`)
	for _, file := range []string{first, `{"flynn_session":2,"key":"web:a:main#2"` + second} {
		if f, err := session.Read(strings.NewReader(file)); err != nil || f.Session.Turns != 1 {
			t.Errorf("%v: %s", err, file)
		}
	}
	if err := k.Export(t.Context(), "web", "none", true, &text); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("export nothing: %v", err)
	}
}
