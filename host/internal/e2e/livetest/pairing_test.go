package livetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// flynn runs another subcommand against the stage.
func (s *stage) flynn(stdin string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin(s.t), "flynn"), append([]string{"--config", filepath.Join(s.program.Dir, "flynn.toml")}, args...)...)
	cmd.Stdin, cmd.Env = strings.NewReader(stdin), []string{"HOME=" + s.program.Dir}
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	return o.String(), e.String(), err
}

// must is flynn for what has to work.
func (s *stage) must(args ...string) string {
	s.t.Helper()
	out, errs, err := s.flynn("", args...)
	if err != nil {
		s.t.Fatalf("flynn %s: %v\n%s%s", strings.Join(args, " "), err, out, errs)
	}
	return out
}

// restart ends the process like a power cut and starts the next.
func (s *stage) restart() {
	s.t.Helper()
	if err := s.program.Kill(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.program.Start(); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	if err := s.program.Ready(ctx); err != nil {
		s.t.Fatal(err)
	}
}

// told counts the replies to a conversation.
func (s *stage) told(conversation string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.shown {
		if r.Conversation == conversation {
			n++
		}
	}
	return n
}

func (s *stage) metrics() string {
	s.t.Helper()
	token, err := os.ReadFile(filepath.Join(s.program.Dir, "store", "gateway.token"))
	if err != nil {
		return ""
	}
	req, err := http.NewRequest(http.MethodGet, s.program.URL+"/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(text)
}

var inReply = regexp.MustCompile("`([A-Z0-9]{4}-[A-Z0-9]{4})`")

// knock has a stranger write in private, and returns the code that he gets.
func (s *stage) knock(who string) string {
	s.t.Helper()
	r := s.say(hosttest.Event{Conversation: who, Sender: who, Text: "from before"})
	found := inReply.FindStringSubmatch(r.Text)
	if found == nil {
		s.t.Fatalf("%s is told %q, without a code", who, r.Text)
	}
	return found[1]
}

func (s *stage) welcomed(who string) {
	s.t.Helper()
	s.await("the welcome of "+who, func(r hosttest.Reply) bool {
		return r.Conversation == who && strings.Contains(r.Text, "You have been let in")
	})
}

// TestAStrangerIsPaired has a stranger ask, get in, be answered over restarts, and be shut out in the middle of an answer.
func TestAStrangerIsPaired(t *testing.T) {
	t.Parallel()
	s := newStage(t, `access = "pair"`)
	code := s.knock("eve")
	s.post(hosttest.Event{Conversation: "eve", Sender: "eve", Text: "are you there?"})
	s.post(hosttest.Event{Conversation: "room", Group: true, Sender: "eve", Text: "and here?"})
	s.until("what a stranger says is recorded", func() bool {
		return strings.Contains(s.metrics(), `flynn_messages_total{channel="platform",fate="dropped"} 3`)
	})
	s.restart() // the request outlives the host

	var list []gateway.AccessEntry
	if err := json.Unmarshal([]byte(s.must("access", "list", "--json")), &list); err != nil || len(list) != 1 || list[0].Sender != "platform:eve" || list[0].Code != code {
		t.Fatalf("access is %+v (%v), want eve with the code %s", list, err, code)
	}
	if out := s.must("access", "approve", strings.ToLower(code)); out != "platform:eve is let in as guest\n" {
		t.Errorf("approved with %q", out)
	}
	s.welcomed("eve")
	if r := s.say(hosttest.Event{Conversation: "eve", Sender: "eve", Text: "and now?"}); r.Text != "You said: and now?" {
		t.Errorf("answered %q", r.Text)
	}
	s.restart()
	if r := s.say(hosttest.Event{Conversation: "room", Group: true, Sender: "eve", Text: "in a room"}); r.Text != "You said: in a room" {
		t.Errorf("answered %q after a restart", r.Text)
	}
	if n := s.told("eve"); n != 3 {
		t.Errorf("%d replies to eve, want the code, the welcome and an answer", n)
	}

	// Another is let in by a word in a chat, where only owners are heard.
	bob := s.knock("bob")
	if r := s.say(hosttest.Event{Conversation: "eve", Sender: "eve", Text: "/pair " + bob}); r.Text != "Only an owner can let somebody in." {
		t.Errorf("eve lets bob in: %q", r.Text)
	}
	if out, errs, err := s.flynn("/pair "+bob+"\n", "chat"); err != nil || !strings.Contains(out, "Let in as guest: `platform:bob`") {
		t.Errorf("in a chat: %q, %q, %v", out, errs, err)
	}
	s.welcomed("bob")

	// A sender who is blocked gets no answer any more, even one that is being made.
	s.say(hosttest.Event{Conversation: "eve", Sender: "eve", Text: "one more"})
	s.post(hosttest.Event{Conversation: "aside", Sender: "eve", Text: "!slow 60000 never"})
	s.until("it is shown that eve's answer is being made", func() bool {
		return slices.ContainsFunc(s.platform.Typings(), func(y hosttest.Typing) bool { return y.On && y.Conversation == "aside" })
	})
	s.must("access", "revoke", "platform:eve")
	s.await("the end of the answer", func(r hosttest.Reply) bool { return r.Conversation == "aside" && r.Text == "Stopped." })
}

// until polls another process.
func (s *stage) until(what string, is func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if is() {
			return
		}
	}
	s.t.Fatalf("%s: not within %s", what, patience)
}
