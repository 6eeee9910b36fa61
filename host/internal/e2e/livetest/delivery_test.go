package livetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// stage is a running flynn with a platform that edits, deletes, shows typing and has files.
type stage struct {
	t        *testing.T
	platform *hosttest.Platform
	program  *hosttest.Program

	mu      sync.Mutex
	next    int
	shown   []hosttest.Reply
	changed chan struct{} // closed and replaced with each reply
}

func newStage(t *testing.T, channel string) *stage {
	t.Helper()
	s := &stage{t: t, changed: make(chan struct{})}
	var err error
	if s.platform, err = hosttest.NewPlatform(hosttest.PlatformConfig{Shown: s.show}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { s.platform.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	s.program = hosttest.New(t, hosttest.Config{Bin: bin(t), Platform: s.platform.Address(), Rich: true, Channel: channel})
	if err := s.program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.program.Tail())
		}
	})
	return s
}

func (s *stage) show(r hosttest.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = append(s.shown, r)
	close(s.changed)
	s.changed = make(chan struct{})
}

// post says something and returns the event's id.
func (s *stage) post(e hosttest.Event) string {
	s.mu.Lock()
	s.next++
	e.ID = fmt.Sprint("e", s.next)
	s.mu.Unlock()
	if e.Conversation == "" {
		e.Conversation = "c"
	}
	if e.Sender == "" {
		e.Sender = "ann"
	}
	s.platform.Post(e)
	return e.ID
}

// await waits for a reply that fits.
func (s *stage) await(what string, fits func(hosttest.Reply) bool) hosttest.Reply {
	s.t.Helper()
	late := time.After(patience)
	for seen := 0; ; {
		s.mu.Lock()
		shown, changed := s.shown, s.changed
		s.mu.Unlock()
		for _, r := range shown[seen:] {
			if fits(r) {
				return r
			}
		}
		seen = len(shown)
		select {
		case <-changed:
		case <-late:
			s.t.Fatalf("%s did not come; shown: %+v; the log ends with:\n%s", what, shown, s.program.Tail())
		}
	}
}

func (s *stage) say(e hosttest.Event) hosttest.Reply {
	s.t.Helper()
	id := s.post(e)
	return s.await("the answer to "+id, func(r hosttest.Reply) bool { return r.ReplyTo == id })
}

func TestAnswersShowWhileTheyAreMade(t *testing.T) {
	t.Parallel()
	s := newStage(t, "")
	var mu sync.Mutex
	var seen []hosttest.Message
	s.platform.Watch(func(m hosttest.Message) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, m)
	})
	quick := s.say(hosttest.Event{Text: "hello"})
	slow := s.streamed("slow", "word", 40)
	long := s.streamed("long", "longer-word", 50)
	rest := s.await("the second part", func(r hosttest.Reply) bool { return r.Key == long.Key+"/2" })

	mu.Lock()
	defer mu.Unlock()
	drafts, last := map[string]int{}, map[string]hosttest.Message{}
	for _, m := range seen {
		if before, there := last[m.ID]; there && m.Revision <= before.Revision {
			t.Errorf("revision %d of %s comes after %d", m.Revision, m.ID, before.Revision)
		}
		if m.Draft {
			drafts[m.ID]++
		}
		last[m.ID] = m
	}
	if quick.Text != "You said: hello" {
		t.Errorf("the quick answer is %+v", quick)
	}
	for _, r := range []hosttest.Reply{slow, long} {
		if m := last[r.Key+"/draft"]; m.Draft || m.Text != r.Text || drafts[m.ID] < 3 {
			t.Errorf("%d drafts became %+v, want %q", drafts[m.ID], m, r.Text)
		}
	}
	if words := strings.Count(long.Text+" "+rest.Text, "longer-word"); words != 50 || len(long.Text) > 400 {
		t.Errorf("%d of 50 words came, %d bytes first: %q, %q", words, len(long.Text), long.Text, rest.Text)
	}
	for _, conversation := range []string{slow.Conversation, long.Conversation} {
		s.until("typing is taken away from "+conversation, func() bool { return len(s.typings(conversation, false)) > 0 })
		if on, off := len(s.typings(conversation, true)), len(s.typings(conversation, false)); on == 0 || off != 1 {
			t.Errorf("in %s typing was shown %d times and taken away %d times", conversation, on, off)
		}
	}
}

// streamed is an answer of so many words that come one after the other, slowly enough for drafts to be made of it meanwhile. Where the
// machine has so much other work that there was no time for that, the words are to come slower.
func (s *stage) streamed(conversation, word string, times int) (answer hosttest.Reply) {
	s.t.Helper()
	for ms := 60; ms < 1000; ms *= 3 {
		c := fmt.Sprint(conversation, ms)
		answer = s.say(hosttest.Event{Conversation: c, Text: fmt.Sprintf("!stream %d ", ms) + strings.TrimSpace(strings.Repeat(word+" ", times))})
		for _, m := range s.platform.Messages() {
			if m.Conversation == c && m.Edits >= 3 {
				return answer
			}
		}
	}
	return answer
}

// typings are the times that typing was shown in a conversation, or taken away.
func (s *stage) typings(conversation string, on bool) (of []hosttest.Typing) {
	for _, y := range s.platform.Typings() {
		if y.Conversation == conversation && y.On == on {
			of = append(of, y)
		}
	}
	return of
}

func TestStreamIsTurnedOff(t *testing.T) {
	t.Parallel()
	s := newStage(t, "stream = false")
	r := s.say(hosttest.Event{Text: "!stream 60 " + strings.TrimSpace(strings.Repeat("word ", 40))})
	if m := s.platform.Messages(); len(m) != 1 || m[0].Edits != 0 || m[0].Text != r.Text {
		t.Errorf("people see %+v", m)
	}
}

func TestFilesGoBothWays(t *testing.T) {
	t.Parallel()
	s := newStage(t, "stream = false")
	s.platform.Offer(hosttest.File{Handle: "f1", Data: []byte("a list of things\n")})
	s.platform.Offer(hosttest.File{Handle: "f2", Data: []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00")})
	in := s.say(hosttest.Event{Text: "look", Files: []hosttest.File{
		{Handle: "f1", Name: "../list.txt"}, {Handle: "f2", Name: "photo.png"}, {Handle: "f3", Name: "gone.txt"},
	}})
	for _, want := range []string{
		`[attachment "list.txt", text/plain; charset=utf-8, 17 bytes: attachments/list.txt]`,
		`[attachment "photo.png" was not taken: it is a program`, `[attachment "gone.txt" was not taken: it could not be fetched`,
	} {
		if !strings.Contains(in.Text, want) {
			t.Errorf("the model was told %q, want %q in it", in.Text, want)
		}
	}
	found, err := filepath.Glob(filepath.Join(s.program.Dir, "store", "workspaces", "*", "attachments", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("files in the workspace: %q, %v", found, err)
	}
	if text, err := os.ReadFile(found[0]); err != nil || string(text) != "a list of things\n" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	read := s.say(hosttest.Event{Text: `!tool file.read {"path":"attachments/list.txt"}`})
	if !strings.Contains(read.Text, "a list of things") {
		t.Errorf("the agent reads %q", read.Text)
	}
	out := s.say(hosttest.Event{Text: `!tool message.attach {"path":"attachments/list.txt","name":"again.txt"}`})
	if len(out.Files) != 1 || out.Files[0].Name != "again.txt" || string(out.Files[0].Data) != "a list of things\n" {
		t.Errorf("the answer %q has the files %+v", out.Text, out.Files)
	}
	if next := s.say(hosttest.Event{Text: "thanks"}); len(next.Files) != 0 {
		t.Errorf("the next answer has files: %+v", next)
	}
}

func TestActsReachTheNextTurn(t *testing.T) {
	t.Parallel()
	s := newStage(t, "stream = false") // an answer that was a draft has another id
	first := s.post(hosttest.Event{Text: "buy milk"})
	answer := s.await("the answer", func(r hosttest.Reply) bool { return r.ReplyTo == first })
	// People see it a moment before the host knows by what name; nobody is as quick as to do something to it by then.
	s.until("the answer is known to be sent", func() bool { return strings.Contains(s.metrics(), "\nflynn_replies_waiting 0\n") })
	s.post(hosttest.Event{Kind: "edit", Target: first, Text: "buy tea"})
	s.post(hosttest.Event{Kind: "reaction", Target: answer.Key, Text: "👍"})
	s.post(hosttest.Event{Kind: "delete", Target: "long ago"})
	told := s.say(hosttest.Event{Text: "and now?"})
	want := `You said: [ann changed the message "buy milk" to "buy tea"]
[ann reacted with "👍" to your message "You said: buy milk"]
[ann took back an earlier message]
and now?`
	if told.Text != want {
		t.Errorf("the model was told %q, want %q", told.Text, want)
	}
	if again := s.say(hosttest.Event{Text: "once more"}); again.Text != "You said: once more" {
		t.Errorf("the turn after it was told %q", again.Text)
	}
	s.post(hosttest.Event{Kind: "reaction", Target: answer.Key, Text: "🎉"})
	s.say(hosttest.Event{Text: "elsewhere", Conversation: "other"}) // by then the reaction may be on disk, or comes again; the kill tries it
	if err := s.program.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.program.Start(); err != nil {
		t.Fatal(err)
	}
	if told := s.say(hosttest.Event{Text: "back?"}); !strings.HasPrefix(told.Text, `You said: [ann reacted with "🎉" to your message`) {
		t.Errorf("after a restart the model was told %q", told.Text)
	}
}
