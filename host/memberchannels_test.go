package host

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/cluster"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/hosttest"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/instances"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
)

// The tests of this file have two hosts that are configured with the same bot. Their plugin is the one of a release, and the platform answers
// a second poller with a conflict.

const telegramKey = store.OwnerKey("channel telegram")

// botPair is two hosts with one bot.
type botPair struct {
	*pair
	bot   *telegramtest.Server
	chats map[string]*telegramtest.Chat // by the text that was said in it; one message each
}

func newBotPair(t *testing.T) *botPair {
	dir := t.TempDir()
	hosttest.BuildPlugin(t, "plugins/telegram", dir)
	for _, name := range []string{"plugin.toml", "settings.schema.json"} {
		text, err := os.ReadFile(filepath.Join("../plugins/telegram", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("MEMBERS_TEST_TOKEN", telegramtest.Token)
	bot := telegramtest.Start(t)
	more := fmt.Sprintf("[channels.telegram]\nplugin = \"telegram\"\ntoken_env = \"MEMBERS_TEST_TOKEN\"\napi_url = %q\n[plugins.dev_paths]\ntelegram = %q\n", bot.URL, dir)
	p := &botPair{newPairWith(t, more), bot, map[string]*telegramtest.Chat{}}
	p.eventually("a host has the channel", func() bool { return p.running() != "" })
	return p
}

// running returns the host whose plugin is ready, if there is one.
func (p *botPair) running() (name string) {
	for host, m := range p.hosts {
		if p.state(m) == plugin.Ready && m.member.Holds(telegramKey) {
			name += host
		}
	}
	return name
}

func (p *botPair) state(m *member) plugin.State {
	for _, s := range m.plugins.Status() {
		if s.Name == "telegram" {
			return s.State
		}
	}
	return plugin.Stopped
}

func (p *botPair) other(name string) string {
	return map[string]string{"a": "b", "b": "a"}[name]
}

// write writes a message in a new private chat.
func (p *botPair) write(text string) *telegramtest.Chat {
	chat := p.bot.Private(text)
	p.chats[text] = chat
	chat.Say(text)
	return chat
}

// said are what the bot said in a chat.
func said(chat *telegramtest.Chat) (texts []string) {
	for _, m := range chat.Messages() {
		texts = append(texts, m.Text)
	}
	return texts
}

// each waits until every message has an answer, and checks that none has two, and that there was no second poller.
func (p *botPair) each() {
	p.t.Helper()
	for text, chat := range p.chats {
		p.eventually("an answer to "+text, func() bool { return len(said(chat)) > 0 })
	}
	p.eventually("nothing unsent", func() bool {
		for _, m := range p.hosts {
			rows, err := m.store.UnsentOutbox(p.t.Context())
			return err == nil && len(rows) == 0
		}
		return false
	})
	for text, chat := range p.chats {
		if all := said(chat); len(all) != 1 {
			p.t.Errorf("%s has the answers %q", text, all)
		}
	}
	if n := p.bot.Conflicts(); n != 0 {
		p.t.Errorf("two plugins polled at the same time %d times", n)
	}
}

// answering answers the calls of the model until the test ends.
func (p *botPair) answering() {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case c := <-p.model.asked:
				c <- "of the model"
			case <-over:
				return
			}
		}
	}()
	p.t.Cleanup(func() { close(over); <-done })
}

// TestAChannelHasOneHostAtATime has the host of a channel be away, come back, and its successor stop in good order, while people write.
func TestAChannelHasOneHostAtATime(t *testing.T) {
	p := newBotPair(t)
	p.answering()
	first := p.running()
	next := p.other(first)
	if state := p.state(p.hosts[next]); state != plugin.Standby {
		t.Errorf("the plugin of the other host is %s", state)
	}
	n := 0
	writes := func(until func() bool) (took time.Duration) {
		began := time.Now()
		for !until() {
			if time.Since(began) > 30*time.Second {
				t.Fatal("the channel is not taken over within 30 s")
			}
			n++
			p.write(fmt.Sprintf("%s-%d", t.Name(), n))
			time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		}
		return time.Since(began)
	}
	p.write("the first")
	p.each()
	id := fmt.Sprint(p.chats["the first"].ID)
	if o := p.owner(store.ConversationOwner(message.NewConversationKey("telegram", id))); o != first {
		t.Errorf("a message came in at %q, and the channel is at %q", o, first)
	}

	p.hosts[first].lease.set(true)
	took := writes(func() bool { return p.state(p.hosts[next]) == plugin.Ready })
	owes(t, "taken over", took, cluster.Term+cluster.Every)
	p.each()

	p.hosts[first].lease.set(false)
	p.eventually("the first is a member again", func() bool { return p.hosts[first].member.Begin(t.Context()) == nil })
	p.eventually("its plugin stands by", func() bool { return p.state(p.hosts[first]) == plugin.Standby })
	p.write("after the return")
	p.each()
	if now := p.running(); now != next {
		t.Errorf("the channel is at %q, want %q", now, next)
	}

	began := time.Now()
	go p.hosts[next].stop() // which the end of the test waits for
	writes(func() bool { return p.state(p.hosts[first]) == plugin.Ready })
	took = time.Since(began)
	owes(t, "handed over", took, time.Second)
	p.each()
	t.Logf("%d messages", len(p.chats))
}

// move has a channel go from one host to the other, on which alone its plugin can run from now on.
func (p *botPair) move(to string) {
	p.t.Helper()
	from := p.other(to)
	c := p.hosts[from].current.Config().Channels
	instances.Set(p.hosts[from].plugins, p.hosts[from].log, p.hosts[from].channels, c, map[string]config.Channel{})
	p.eventually("the channel has moved to "+to, func() bool { return p.running() == to })
}

// back lets the plugin of a host run again.
func (p *botPair) back(name string) {
	h := p.hosts[name]
	instances.Set(h.plugins, h.log, h.channels, map[string]config.Channel{}, h.current.Config().Channels)
}

// TestRepliesLeaveByTheHostOfTheirChannel has turns run on a host that has not their channel, in both directions.
func TestRepliesLeaveByTheHostOfTheirChannel(t *testing.T) {
	p := newBotPair(t)
	one := p.running()
	two := p.other(one)
	ann := p.write("ann")
	answer := p.call()
	p.move(two) // while the turn waits for its model
	answer <- "first"
	p.each()
	if all := said(ann); all[0] != "first" {
		t.Errorf("the answers are %q", all)
	}
	key := store.ConversationOwner(message.NewConversationKey("telegram", fmt.Sprint(ann.ID)))
	ann.Say("again") // comes in at the second, and is the first's
	p.call() <- "second"
	p.eventually("the second answer", func() bool { return len(said(ann)) == 2 })
	if o := p.owner(key); o != one {
		t.Errorf("the conversation is at %q, want %q", o, one)
	}
	bob := p.write("bob")
	answer = p.call()
	p.back(one)
	p.move(one)
	answer <- "third"
	p.eventually("the third answer", func() bool { return len(said(bob)) == 1 })
	bob.Say("again")
	p.call() <- "fourth"
	p.eventually("the fourth answer", func() bool { return len(said(bob)) == 2 })
	key = store.ConversationOwner(message.NewConversationKey("telegram", fmt.Sprint(bob.ID)))
	if o := p.owner(key); o != two {
		t.Errorf("the conversation is at %q, want %q", o, two)
	}
	if all := said(bob); all[0] != "third" || all[1] != "fourth" {
		t.Errorf("the answers are %q", all)
	}
	if n := p.bot.Conflicts(); n != 0 {
		t.Errorf("two plugins polled at the same time %d times", n)
	}
}
