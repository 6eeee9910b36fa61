package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent"
	"github.com/flynnhost/flynn/host/cluster"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/store/database"
	"github.com/flynnhost/flynn/host/store/postgres/postgrestest"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool/approval"
)

// The tests of this file have two hosts in one process on one store, with a channel that records what it sends, and a model that answers when it may.

// pair is two hosts that share a store.
type pair struct {
	t         testing.TB
	dir       string // of the store, in SQLite
	url       string // of the store, in Postgres
	more      string // of the configuration
	clustered string // of [cluster], in Postgres
	model     *gatedModel
	sent      sentLog
	hosts     map[string]*member
	// dirs are the folders of the hosts, if they are to find them again when they are started again, and before prepares one.
	dirs   map[string]string
	before func(dir string)
	keep   bool                                         // the files of hosts that are started again
	wrap   func(name string, s store.Store) store.Store // of a host's store
}

// member is one of the hosts.
type member struct {
	*Host
	lease *lease
	ended map[string]int // turns that it has ended, by state
	mu    sync.Mutex
	stop  context.CancelFunc
	over  chan struct{}
}

// lease is the way of a host to what its store says of owners. While it is cut nothing gets through, as for a process that is stopped.
type lease struct {
	store.Store
	mu       sync.Mutex
	cut      chan struct{} // nil if it is not cut; closed when it is mended
	renewals int           // that were sent
}

func (l *lease) wait(ctx context.Context) error {
	l.mu.Lock()
	cut := l.cut
	l.mu.Unlock()
	if cut == nil {
		return nil
	}
	select {
	case <-cut:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *lease) Renew(ctx context.Context, v store.Lease) (store.Renewal, error) {
	if err := l.wait(ctx); err != nil {
		return store.Renewal{}, err
	}
	l.mu.Lock() // the answer to the one before was heard
	l.renewals++
	l.mu.Unlock()
	return l.Store.Renew(ctx, v)
}

func (l *lease) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewals
}

func (l *lease) Claim(ctx context.Context, key store.OwnerKey) (store.Owner, error) {
	if err := l.wait(ctx); err != nil {
		return store.Owner{}, err
	}
	return l.Store.Claim(ctx, key)
}

func (l *lease) Standing(ctx context.Context) (store.Standing, error) {
	if err := l.wait(ctx); err != nil {
		return store.Standing{}, err
	}
	return l.Store.Standing(ctx)
}

func (l *lease) Leave(ctx context.Context) error {
	if err := l.wait(ctx); err != nil {
		return err
	}
	return l.Store.Leave(ctx)
}

func (l *lease) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut != nil {
		close(l.cut)
		l.cut = nil
	}
	if cut {
		l.cut = make(chan struct{})
	}
}

// sentLog is what a channel has delivered.
type sentLog struct {
	mu   sync.Mutex
	sent []message.Reply
}

func (l *sentLog) Send(_ context.Context, r message.Reply) (message.Delivery, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, r)
	return message.Delivery{Outcome: message.Sent, PlatformIDs: []string{fmt.Sprint(len(l.sent))}}, nil
}

func (l *sentLog) Capabilities() message.Capabilities { return message.Capabilities{} }

func (l *sentLog) all() []message.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sent)
}

// gatedModel answers each request once it may.
type gatedModel struct {
	*httptest.Server
	asked chan chan string // one channel for each request, that takes its answer
}

func newGatedModel(t *testing.T) *gatedModel {
	m := &gatedModel{asked: make(chan chan string, 100)}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		answer := make(chan string, 1)
		m.asked <- answer
		select {
		case text := <-answer:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", text)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(m.Close)
	return m
}

func newPair(t *testing.T) *pair { return newPairWith(t, "") }

// newPairWith returns two hosts with more tables in their configuration, whose store is in SQLite.
func newPairWith(t *testing.T, more string) *pair {
	p := &pair{t: t, dir: t.TempDir(), more: more, model: newGatedModel(t), hosts: map[string]*member{}}
	for _, name := range []string{"a", "b"} {
		p.start(name)
	}
	return p
}

// onEachStore runs a test with two hosts that share a store in SQLite, and with two in Postgres, as their configuration says.
func onEachStore(t *testing.T, test func(t *testing.T, p *pair)) {
	for _, of := range []string{"SQLite", "Postgres"} {
		t.Run(of, func(t *testing.T) {
			if of == "SQLite" {
				test(t, newPair(t))
				return
			}
			p := onPostgres(t)
			for _, name := range []string{"a", "b"} {
				p.start(name)
			}
			test(t, p)
		})
	}
}

// onPostgres returns hosts that share a store in Postgres, of which none is started.
func onPostgres(t *testing.T) *pair {
	server := postgrestest.Start(t)
	return &pair{t: t, url: server.URL(server.Database(t)), model: newGatedModel(t), hosts: map[string]*member{}}
}

func (p *pair) start(name string) *member {
	p.t.Helper()
	dir := p.dirs[name]
	if dir == "" {
		dir = p.t.TempDir()
		if p.dirs != nil {
			p.dirs[name] = dir
		}
		if p.before != nil {
			p.before(dir)
		}
	}
	path := filepath.Join(dir, "flynn.toml")
	shared := ""
	if p.url != "" {
		shared = "url_env = \"FLYNN_STORE\"\n[cluster]\nhost = \"" + name + "\"\n" + p.clustered
	}
	text := "[store]\ndir = \"" + dir + "/s\"\n" + shared + "[gateway]\nlisten = \"127.0.0.1:0\"\n[routing]\ndefault_agent = \"a\"\n[agent_configs.a]\ntool_profile = \"minimal\"\n" +
		"[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"" + p.model.URL + "\"\n" +
		"[access]\nmode = \"open\"\nrate_per_minute = 10_000\nunknown_rate_per_minute = 10_000\nowners = [\"irc:ann\"]\n[channels.irc]\nplugin = \"irc\"\nenabled = false\ntrust_senders = true\n" + p.more
	if _, err := os.Stat(path); !p.keep || err != nil {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	m := &member{lease: &lease{}, ended: map[string]int{}, over: make(chan struct{})}
	ready := make(chan struct{})
	h, err := New(p.t.Context(), Config{
		Path: path, Log: slog.New(slog.DiscardHandler), Ready: func() { close(ready) },
		Getenv: func(variable string) string {
			if variable == "FLYNN_STORE" {
				return p.url
			}
			return os.Getenv(variable)
		},
		store: func(ctx context.Context, own config.Store) (_ store.Store, err error) {
			if p.url != "" {
				m.lease.Store, err = database.At(own.Location()).Open(ctx)
			} else if err = os.MkdirAll(own.Dir, 0o700); err == nil {
				m.lease.Store, err = sqlite.Join(ctx, p.dir, name)
			}
			if p.wrap != nil && err == nil {
				return p.wrap(name, m.lease), nil
			}
			return m.lease, err
		},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	m.Host = h
	event.On(&h.events, func(e agent.TurnEnded) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ended[string(e.State)]++
	})
	h.outbox.Attach("irc", &p.sent)
	ctx, stop := context.WithCancel(context.Background())
	m.stop = sync.OnceFunc(func() {
		m.lease.set(false)
		stop()
		<-m.over
	})
	go func() {
		defer close(m.over)
		if err := h.Run(ctx); err != nil && !errors.Is(err, store.ErrFenced) {
			p.t.Error(err)
		}
	}()
	p.t.Cleanup(m.stop)
	select {
	case <-ready:
	case <-m.over:
		p.t.Fatal("the host has ended")
	}
	p.hosts[name] = m
	return m
}

// say has a host take a message.
func (p *pair) say(m *member, event, conversation string) {
	p.t.Helper()
	err := m.inbox.Accept(p.t.Context(), message.Message{
		Channel: "irc", EventID: event, Text: "hello", Addressed: true, SentAt: time.Now(), ReceivedAt: time.Now(), Sender: message.Sender{ID: "ann"},
		Conversation: message.Conversation{ID: conversation, Kind: message.DM},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// call waits for the next call of the model.
func (p *pair) call() chan<- string {
	p.t.Helper()
	select {
	case c := <-p.model.asked:
		return c
	case <-time.After(30 * time.Second):
		p.t.Fatal("the model is not called")
		return nil
	}
}

// eventually waits until something holds.
func (p *pair) eventually(what string, holds func() bool) {
	p.t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// owes logs a figure. It fails only at ten times what is owed, which a busy machine may take, and which is still less than the time after which a host
// finds what it was not told of.
func owes(t *testing.T, what string, took, owed time.Duration) {
	t.Helper()
	t.Logf("%s after %s", what, took.Round(time.Millisecond))
	if took > 10*owed {
		t.Errorf("%s after %s; owed is %s on a machine that has nothing else to do", what, took, owed)
	}
}

// answered waits until so many replies have been sent, and checks that nothing was sent twice.
func (p *pair) answered(want ...string) {
	p.t.Helper()
	p.eventually(fmt.Sprint("the replies ", want), func() bool { return len(p.sent.all()) >= len(want) })
	var got []string
	for _, r := range p.sent.all() {
		got = append(got, r.Text)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		p.t.Fatalf("sent are %q, want %q", got, want)
	}
	p.eventually("nothing unsent", func() bool {
		rows, err := p.hosts["b"].store.UnsentOutbox(p.t.Context())
		return err == nil && len(rows) == 0
	})
}

func (p *pair) owner(key store.OwnerKey) string {
	o, err := p.hosts["b"].store.Owner(p.t.Context(), key)
	if err != nil {
		p.t.Fatal(err)
	}
	return o.Host
}

func conversationKey(id string) store.OwnerKey {
	return store.ConversationOwner(message.NewConversationKey("irc", id))
}

// TestATurnOfAStoppedHostIsTakenOver has a host stop in the middle of a turn, as by SIGSTOP, or for ever. The other answers; what the first
// does when it runs again is not committed.
func TestATurnOfAStoppedHostIsTakenOver(t *testing.T) { onEachStore(t, aTurnOfAStoppedHostIsTakenOver) }

func aTurnOfAStoppedHostIsTakenOver(t *testing.T, p *pair) {
	a, b := p.hosts["a"], p.hosts["b"]
	p.say(a, "e1", "ann")
	late := p.call()
	if o := p.owner(conversationKey("ann")); o != "a" {
		t.Fatalf("the owner is %q", o)
	}
	a.lease.set(true)
	began := time.Now()
	p.call() <- "of the second"
	took := time.Since(began)
	owes(t, "taken over", took, cluster.Term+cluster.Every)
	p.answered("of the second")
	late <- "of the first"
	p.say(b, "e2", "ann")
	p.call() <- "of the second again"
	p.answered("of the second", "of the second again")
	a.lease.set(false)
	p.eventually("the first is a member again", func() bool { return a.member.Begin(t.Context()) == nil })
	a.mu.Lock()
	ended := len(a.ended)
	a.mu.Unlock()
	if ended != 0 {
		t.Errorf("the first has ended turns: %v", a.ended)
	}
	p.say(a, "e3", "ann") // belongs to the second, which hears of it
	p.call() <- "third"
	p.answered("of the second", "of the second again", "third")
	p.say(a, "e4", "bob")
	p.call() <- "zzz"
	p.answered("of the second", "of the second again", "third", "zzz")
	if o := p.owner(conversationKey("bob")); o != "a" {
		t.Errorf("what the first takes now belongs to %q", o)
	}
}

// TestAHostThatStopsInGoodOrderHandsOver: its keys are free at once, and what it did not answer is answered by the other.
func TestAHostThatStopsInGoodOrderHandsOver(t *testing.T) {
	onEachStore(t, aHostThatStopsInGoodOrderHandsOver)
}

func aHostThatStopsInGoodOrderHandsOver(t *testing.T, p *pair) {
	a := p.hosts["a"]
	p.say(a, "e1", "ann")
	p.call()
	began := time.Now()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		a.stop()
	}()
	answer := p.call()
	t.Logf("handed over after %s", time.Since(began).Round(time.Millisecond))
	<-stopped
	answer <- "of the second"
	p.answered("of the second")
	if o := p.owner(conversationKey("ann")); o != "b" {
		t.Errorf("the owner is %q", o)
	}
}

// TestSingletonsRunOnce: each task of the host runs on one of them, and on the other when that ends.
func TestSingletonsRunOnce(t *testing.T) { onEachStore(t, singletonsRunOnce) }

func singletonsRunOnce(t *testing.T, p *pair) {
	for _, key := range []store.OwnerKey{store.ScheduleOwner, store.MemoryOwner, store.UpkeepOwner} {
		p.eventually(string(key), func() bool { return p.owner(key) == "a" })
		if p.hosts["b"].member.Holds(key) {
			t.Errorf("both hosts run %s", key)
		}
	}
	p.hosts["a"].stop()
	for _, key := range []store.OwnerKey{store.ScheduleOwner, store.MemoryOwner, store.UpkeepOwner} {
		p.eventually(string(key), func() bool { return p.owner(key) == "b" && p.hosts["b"].member.Holds(key) })
	}
}

// TestAHaltIsSeenByAllHosts within about a second.
func TestAHaltIsSeenByAllHosts(t *testing.T) { onEachStore(t, aHaltIsSeenByAllHosts) }

func aHaltIsSeenByAllHosts(t *testing.T, p *pair) {
	a, b := p.hosts["a"], p.hosts["b"]
	p.say(b, "e1", "ann")
	p.call() // its turn is stopped, and begins again
	for i, on := range []bool{true, false} {
		began := time.Now()
		if err := a.kill.Set(t.Context(), on, "a test", "web:owner"); err != nil {
			t.Fatal(err)
		}
		p.eventually("the other host knows", func() bool { return (b.kill.Why() != "") == on })
		took := time.Since(began)
		owes(t, fmt.Sprint("change ", i, " was seen"), took, cluster.Every)
	}
	p.call() <- "after all"
	p.answered("after all")
}

// TestAnApprovalIsAnsweredThroughAnotherHost: the turn that waits for it goes on within a second.
func TestAnApprovalIsAnsweredThroughAnotherHost(t *testing.T) {
	onEachStore(t, anApprovalIsAnsweredThroughAnotherHost)
}

func anApprovalIsAnsweredThroughAnotherHost(t *testing.T, p *pair) {
	a, b := p.hosts["a"], p.hosts["b"]
	request, err := a.approvals.Request(t.Context(), approval.Ask{Turn: "t", Session: "irc:ann:a", Requester: "irc:bob", Reach: approval.ReachOnce,
		Binding: approval.Binding{Tool: "shell.exec", Args: []byte(`{}`), Agent: "a", Where: "host", Sandbox: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	type answer struct {
		granted bool
		err     error
	}
	got := make(chan answer, 1)
	go func() {
		granted, _, err := a.approvals.Wait(context.Background(), request.ID)
		got <- answer{granted, err}
	}()
	began := time.Now()
	if err := b.approvals.Decide(t.Context(), request.ID, true, "web:owner"); err != nil {
		t.Fatal(err)
	}
	if v := <-got; !v.granted || v.err != nil {
		t.Fatalf("the answer is %+v", v)
	}
	took := time.Since(began)
	owes(t, "goes on", took, cluster.Every)
}
