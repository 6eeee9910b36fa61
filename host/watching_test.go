package host

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/api"
	"github.com/flynnhost/flynn/host/message"
)

// TestLateWindowSeesWhatStreams: a window that is opened in the middle of the first answer sees both questions and all of the text, of
// which the store knows nothing yet. The title of the conversation is what was said first, before and after.
func TestLateWindowSeesWhatStreams(t *testing.T) {
	released := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(text string) {
			fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", text)
			w.(http.Flusher).Flush()
		}
		say("half of ")
		say("the answer")
		<-released
		fmt.Fprint(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	defer model.Close()
	dir := t.TempDir()
	path := filepath.Join(dir, "flynn.toml")
	text := fmt.Sprintf("[store]\ndir = %q\n[gateway]\nlisten = \"127.0.0.1:0\"\n[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = %q\napi_key_env = \"K\"\n"+
		"[routing]\ndefault_agent = \"a\"\n[agent_configs.a]\n", dir+"/s", model.URL+"/v1")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string { return map[string]string{"K": "key"}[name] }
	h, err := New(t.Context(), Config{Path: path, Getenv: getenv, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	run(t, h)
	b := h.backend()
	_, events, stop := b.Conversations.Watch("web", "main")
	defer stop()
	say := func(id, text string) {
		t.Helper()
		if err := b.Conversations.Submit(t.Context(), message.Message{
			Channel: "web", EventID: id, Text: text, Sender: message.Sender{ID: "owner"}, Addressed: true, Conversation: message.Conversation{ID: "main", Kind: message.DM},
		}); err != nil {
			t.Fatal(err)
		}
	}
	say("q1", "the first question")
	streamed := ""
	for e := range events {
		if e.Kind == message.TextDelta {
			streamed += e.Text
		}
		if streamed == "half of the answer" {
			break
		}
	}
	say("q2", "the second question")

	told, _, leave := b.Conversations.Watch("web", "main")
	leave()
	var late []string
	for _, e := range told {
		late = append(late, string(e.Kind)+" "+e.Text+strings.Join(e.Answers, ","))
	}
	if want := []string{"turn_started the first questionq1", "text_delta half of the answer"}; !slices.Equal(late, want) {
		t.Errorf("a late watcher gets %q, want %q", late, want)
	}
	history, err := b.Conversations.History(t.Context(), "web", "main", 10)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range history {
		said = append(said, e.Text)
	}
	if want := []string{"the first question", "the second question"}; !slices.Equal(said, want) {
		t.Errorf("the history is %q, want %q", said, want)
	}
	close(released)
	eventually(t, "both are answered", func() bool {
		list, err := b.Conversations.Conversations(t.Context(), gateway.ConversationFilter{})
		return err == nil && len(list.Items) == 1 && list.Items[0].Turns == 2 && !list.Items[0].Running
	})
	list, err := b.Conversations.Conversations(t.Context(), gateway.ConversationFilter{})
	if err != nil || list.Items[0].Title != "the first question" {
		t.Errorf("the conversation is %+v, %v", list, err)
	}
	if told, _, leave := b.Conversations.Watch("web", "main"); len(told) > 0 {
		t.Errorf("after the end a watcher still gets %+v", told)
	} else {
		leave()
	}
}

// TestSingleQuestionsAreNotListed: what programs ask once does not bury the conversations of people.
func TestSingleQuestionsAreNotListed(t *testing.T) {
	for _, tt := range []struct {
		channel, id string
		turns       int
		once        bool
	}{
		{api.OpenAI, "owner/once/x", 1, true},
		{api.OpenAI, "editor/mine", 1, false},
		{api.MCP, "owner/new-x", 1, true},
		{api.MCP, "owner/new-x", 2, false},
		{api.MCP, "owner/mine", 1, false},
		{gateway.ChannelWeb, "a/once/b", 1, false},
	} {
		if got := api.Once(tt.channel, tt.id, tt.turns); got != tt.once {
			t.Errorf("%s:%s after %d turns: %v", tt.channel, tt.id, tt.turns, got)
		}
	}
}
