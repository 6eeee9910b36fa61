package crashtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// outstanding bounds the unanswered messages of a conversation, so that some of them wait together.
const outstanding = 3

// talk is the people of the platform.
type talk struct {
	journal  *journal
	platform *hosttest.Platform
	streams  bool                     // some answers take their time
	apart    bool                     // the hosts have no workspaces in common
	room     map[string]chan struct{} // a token for each message of speak that has no answer
}

func newTalk(l *journal, conversations int) *talk {
	t := &talk{journal: l, room: map[string]chan struct{}{}}
	for i := range conversations {
		t.room[conversation(i)] = make(chan struct{}, outstanding)
	}
	return t
}

func conversation(i int) string { return fmt.Sprintf("c%d", i) }

// group reports whether several people are in a conversation; there the text reaches the model with its speaker before
// it, and commands to the demo model are none.
func group(i int) bool { return i%4 == 3 }

// shown makes room for what was answered. Platform calls it.
func (t *talk) shown(r hosttest.Reply) {
	for _, m := range t.journal.show(r) {
		select {
		case <-t.room[m.conversation]:
		default: // it was not said by speak
		}
	}
}

// serve runs a platform until stop is called.
func serve(t *testing.T, p *hosttest.Platform) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var platform sync.WaitGroup
	platform.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return func() {
		cancel()
		platform.Wait()
	}
}

// while lets people talk during something. They have said their last when it returns.
func (t *talk) while(ctx context.Context, seed uint64, during func()) {
	talking, hush := context.WithCancel(ctx)
	var people sync.WaitGroup
	defer people.Wait()
	defer hush()
	for i := range *conversations {
		rng := rand.New(rand.NewPCG(seed, uint64(i)+1))
		people.Go(func() { t.speak(talking, i, rng) })
	}
	during()
}

// speak posts messages in conversation i until ctx ends.
func (t *talk) speak(ctx context.Context, i int, rng *rand.Rand) {
	for {
		select {
		case t.room[conversation(i)] <- struct{}{}:
		case <-ctx.Done():
			return
		}
		sender := "ann"
		if group(i) && rng.IntN(3) == 0 {
			sender = "bob"
		}
		k := choose(i, rng)
		if k == slow && t.streams {
			k = stream
		}
		if k == effect && t.apart {
			k = slow
		}
		t.post(i, k, sender)
		select {
		case <-time.After(time.Duration(rng.IntN(30)) * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

func choose(i int, rng *rand.Rand) kind {
	if group(i) {
		return plain
	}
	switch n := rng.IntN(10); {
	case n < 2:
		return slow
	case n < 4:
		return write
	case n < 5:
		return effect
	}
	return plain
}

// post says one message. A tool's message has a sender of its own, since messages of one sender that wait together are
// answered together, and then no command would be one. So has one that streams.
func (t *talk) post(i int, k kind, sender string) {
	id := t.journal.post(conversation(i), k)
	e := hosttest.Event{ID: strconv.Itoa(id), Conversation: conversation(i), Group: group(i), Sender: sender}
	if k.tool() || k == stream {
		e.Sender = fmt.Sprintf("owner-of-%d", id)
	}
	e.Text = t.text(k, id)
	t.platform.Post(e)
}

// The file in the workspace of each conversation to which effects add lines, before its last one.
const (
	effectsFile = "effects"
	lastLine    = "END"
)

func (t *talk) text(k kind, id int) string {
	switch k {
	case stream:
		return fmt.Sprintf("!stream 40 hello %s %s", tag(id), strings.Repeat("and so on ", 15))
	case slow:
		return fmt.Sprintf("!slow 30 hello %s", tag(id))
	case write:
		return fmt.Sprintf(`!tool memory.write {"key":%q,"text":%q,"scope":"shared"}`, noteKey(id), noteText(id))
	case begin:
		return fmt.Sprintf(`!tool file.write {"path":%q,"content":%q}`, effectsFile, lastLine)
	case effect:
		return fmt.Sprintf(`!tool file.edit {"path":%q,"old":%q,"new":%q}`, effectsFile, lastLine, tag(id)+"\n"+lastLine)
	}
	return fmt.Sprintf("hello %s", tag(id))
}

func noteKey(id int) string  { return fmt.Sprintf("note-%d", id) }
func noteText(id int) string { return fmt.Sprintf("the text of %d", id) }

// recall asks for the note that message id wrote and returns the number of the question.
func (t *talk) recall(id int) (question int) {
	question = t.journal.post(conversation(0), read)
	t.platform.Post(hosttest.Event{
		ID: strconv.Itoa(question), Conversation: conversation(0), Sender: fmt.Sprintf("owner-of-%d", question),
		Text: fmt.Sprintf(`!tool memory.read {"key":%q}`, noteKey(id)),
	})
	return question
}
