package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memoryStore is a store of approvals that forgets at the end of the test.
type memoryStore struct {
	mu   sync.Mutex
	rows []consent.Approval
}

func (m *memoryStore) find(id string) *consent.Approval {
	i := slices.IndexFunc(m.rows, func(a consent.Approval) bool { return a.ID == id })
	if i < 0 {
		return nil
	}
	return &m.rows[i]
}

func (m *memoryStore) AddApproval(_ context.Context, a consent.Approval) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.find(a.ID) != nil {
		return store.ErrConflict
	}
	m.rows = append(m.rows, a)
	return nil
}

func (m *memoryStore) Approval(_ context.Context, id string) (consent.Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.find(id); a != nil {
		return *a, nil
	}
	return consent.Approval{}, store.ErrNotFound
}

func (m *memoryStore) MoveApproval(_ context.Context, id string, from, to consent.ApprovalState, decider string, at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.find(id)
	if a == nil {
		return store.ErrNotFound
	}
	if a.State != from {
		return store.ErrConflict
	}
	a.State, a.Decider, a.Decided = to, decider, at
	return nil
}

func (m *memoryStore) ListApprovals(_ context.Context, state consent.ApprovalState, limit int) ([]consent.Approval, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []consent.Approval
	for _, a := range m.rows {
		if a.State == state && len(list) < limit {
			list = append(list, a)
		}
	}
	return list, nil
}

func newService(t *testing.T, s consent.Approvals, change func(*Config)) *Service {
	t.Helper()
	c := Config{Store: s}
	if change != nil {
		change(&c)
	}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func shellAsk() Ask {
	return Ask{
		Binding: Binding{
			Tool: "shell.exec", Args: json.RawMessage(`{"command":"ls"}`), Dir: "/work",
			Agent: "coder", Policy: "abc", Where: "host",
		},
		Turn: "t1", Session: "irc:#x:coder", Requester: "irc:bob", Reasons: []string{"guard: commands ask"},
	}
}

func request(t *testing.T, d *Service, ask Ask) consent.Approval {
	t.Helper()
	a, err := d.Request(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestNobodyBuriesTheRequestsOfOthers(t *testing.T) {
	now := time.Now()
	d := newService(t, &memoryStore{}, func(c *Config) {
		c.Now = func() time.Time { return now }
		c.SelfApprove = func(requester message.SenderKey) bool { return requester == "web:owner" }
	})
	ask := func(who string, i int) error {
		a := shellAsk()
		a.Turn, a.Requester = fmt.Sprint(who, i), message.SenderKey(who)
		_, err := d.Request(t.Context(), a)
		return err
	}
	for i := range 2 * manyEach {
		if err := ask("irc:eve", i); (i >= manyEach) != errors.Is(err, ErrMany) {
			t.Errorf("request %d of one sender: %v", i, err)
		}
		if err := ask("web:owner", i); err != nil {
			t.Errorf("request %d of the owner: %v", i, err)
		}
	}
	if err := ask("irc:eve", 0); err != nil {
		t.Errorf("a request that waits already is not taken up: %v", err)
	}
	if err := ask("irc:bob", 0); err != nil {
		t.Errorf("another sender pays for it: %v", err)
	}
	now = now.Add(time.Hour)
	if err := ask("irc:eve", 100); err != nil {
		t.Errorf("expired requests still count: %v", err)
	}
}

func TestRequestKeepsEverythingThatIsShown(t *testing.T) {
	s := &memoryStore{}
	var told []consent.Approval
	d := newService(t, s, func(c *Config) { c.Notify = func(a consent.Approval) { told = append(told, a) } })
	a := request(t, d, shellAsk())
	row, err := s.Approval(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0].ID != a.ID || told[0].State != consent.ApprovalPending {
		t.Errorf("told of %+v, want one pending request", told)
	}
	if string(row.Args) != `{"command":"ls"}` || row.Dir != "/work" || row.Where != "host" || row.Policy != "abc" || row.Requester != "irc:bob" || len(row.Reasons) != 1 {
		t.Errorf("kept %+v", row)
	}
	if got := row.Expires.Sub(row.Created); got != 15*time.Minute {
		t.Errorf("lives for %v, want 15 min", got)
	}
}

func TestDecide(t *testing.T) {
	type decision struct {
		grant   bool
		decider string
		want    error
	}
	for _, c := range []struct {
		name      string
		self      bool
		decisions []decision
		state     consent.ApprovalState
		decider   string
	}{
		{"granted", false, []decision{{true, "irc:alice", nil}}, consent.ApprovalGranted, "irc:alice"},
		{"denied", false, []decision{{false, "irc:alice", nil}}, consent.ApprovalDenied, "irc:alice"},
		{"double click", false, []decision{{true, "irc:alice", nil}, {true, "irc:alice", nil}}, consent.ApprovalGranted, "irc:alice"},
		{"second person agrees", false, []decision{{true, "irc:alice", nil}, {true, "irc:carol", nil}}, consent.ApprovalGranted, "irc:alice"},
		{"second person differs", false, []decision{{true, "irc:alice", nil}, {false, "irc:carol", ErrDecided}}, consent.ApprovalGranted, "irc:alice"},
		{"grant after a denial", false, []decision{{false, "irc:alice", nil}, {true, "irc:alice", ErrDecided}}, consent.ApprovalDenied, "irc:alice"},
		{"requester grants", false, []decision{{true, "irc:bob", ErrSelf}}, consent.ApprovalPending, ""},
		{"requester grants after another one", false, []decision{{true, "irc:alice", nil}, {true, "irc:bob", nil}}, consent.ApprovalGranted, "irc:alice"},
		{"requester denies", false, []decision{{false, "irc:bob", nil}}, consent.ApprovalDenied, "irc:bob"},
		{"requester at a local frontend grants", true, []decision{{true, "irc:bob", nil}}, consent.ApprovalGranted, "irc:bob"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &memoryStore{}
			d := newService(t, s, func(cfg *Config) { cfg.SelfApprove = func(message.SenderKey) bool { return c.self } })
			a := request(t, d, shellAsk())
			for _, step := range c.decisions {
				if err := d.Decide(t.Context(), a.ID, step.grant, step.decider); !errors.Is(err, step.want) {
					t.Errorf("decide %v by %s: %v, want %v", step.grant, step.decider, err, step.want)
				}
			}
			row, _ := s.Approval(t.Context(), a.ID)
			if row.State != c.state || row.Decider != c.decider {
				t.Errorf("ended as %s by %q, want %s by %q", row.State, row.Decider, c.state, c.decider)
			}
		})
	}
	t.Run("unknown request", func(t *testing.T) {
		d := newService(t, &memoryStore{}, nil)
		if err := d.Decide(t.Context(), "nope", true, "irc:alice"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("got %v, want not found", err)
		}
	})
	t.Run("nobody decides", func(t *testing.T) {
		d := newService(t, &memoryStore{}, nil)
		a := request(t, d, shellAsk())
		if err := d.Decide(t.Context(), a.ID, true, ""); err == nil {
			t.Error("a decision of nobody was taken")
		}
	})
}

func TestConsumeIsBoundToWhatWasShown(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Binding)
		want   error
	}{
		{"nothing", func(*Binding) {}, nil},
		{"tool", func(b *Binding) { b.Tool = "process.start" }, ErrDrift},
		{"args", func(b *Binding) { b.Args = json.RawMessage(`{"command":"rm -r /"}`) }, ErrDrift},
		{"dir", func(b *Binding) { b.Dir = "/" }, ErrDrift},
		{"agent", func(b *Binding) { b.Agent = "other" }, ErrDrift},
		{"policy", func(b *Binding) { b.Policy = "def" }, ErrDrift},
		{"where", func(b *Binding) { b.Where = "sandbox" }, ErrDrift},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newService(t, &memoryStore{}, nil)
			a := request(t, d, shellAsk())
			if err := d.Decide(t.Context(), a.ID, true, "irc:alice"); err != nil {
				t.Fatal(err)
			}
			b := shellAsk().Binding
			c.change(&b)
			if err := d.Consume(t.Context(), a.ID, b); !errors.Is(err, c.want) {
				t.Errorf("consume: %v, want %v", err, c.want)
			}
		})
	}
}

func TestConsumeWorksOnceAndOnlyAfterAGrant(t *testing.T) {
	s := &memoryStore{}
	d := newService(t, s, nil)
	b := shellAsk().Binding
	a := request(t, d, shellAsk())
	if err := d.Consume(t.Context(), a.ID, b); !errors.Is(err, ErrUsed) {
		t.Errorf("consume while pending: %v, want refused", err)
	}
	if err := d.Decide(t.Context(), a.ID, true, "irc:alice"); err != nil {
		t.Fatal(err)
	}
	var wins int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if d.Consume(context.Background(), a.ID, b) == nil {
				mu.Lock()
				defer mu.Unlock()
				wins++
			}
		})
	}
	all.Wait()
	if wins != 1 {
		t.Errorf("one grant was used %d times", wins)
	}
	if err := d.Decide(t.Context(), a.ID, true, "irc:alice"); err != nil {
		t.Errorf("late double click: %v", err)
	}
	if row, _ := s.Approval(t.Context(), a.ID); row.Decider != "irc:alice" || row.State != consent.ApprovalConsumed {
		t.Errorf("after use: %+v", row)
	}
}

func TestRequestIsTakenUpAfterARestart(t *testing.T) {
	s := &memoryStore{}
	first := request(t, newService(t, s, nil), shellAsk())
	var told int
	d := newService(t, s, func(c *Config) { c.Notify = func(consent.Approval) { told++ } })
	if again := request(t, d, shellAsk()); again.ID != first.ID || told != 1 {
		t.Errorf("asked again as %s, told %d times; want %s taken up", again.ID, told, first.ID)
	}
	other := shellAsk()
	other.Turn = "t2"
	if a := request(t, d, other); a.ID == first.ID {
		t.Error("another turn shares the request")
	}
	if err := d.Decide(t.Context(), first.ID, true, "irc:alice"); err != nil {
		t.Fatal(err)
	}
	granted := request(t, newService(t, s, nil), shellAsk())
	if granted.ID != first.ID || granted.State != consent.ApprovalGranted {
		t.Errorf("unused grant: got %s in state %s", granted.ID, granted.State)
	}
	if err := d.Consume(t.Context(), first.ID, shellAsk().Binding); err != nil {
		t.Fatal(err)
	}
	if a := request(t, d, shellAsk()); a.ID == first.ID {
		t.Error("a used grant was taken up")
	}
}

func TestWait(t *testing.T) {
	for _, grant := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			d := newService(t, &memoryStore{}, nil)
			a := request(t, d, shellAsk())
			go func() {
				time.Sleep(time.Minute) // the bubble's clock
				if err := d.Decide(context.Background(), a.ID, grant, "irc:alice"); err != nil {
					t.Errorf("decide: %v", err)
				}
			}()
			began := time.Now()
			granted, decider, err := d.Wait(t.Context(), a.ID)
			if granted != grant || decider != "irc:alice" || err != nil {
				t.Errorf("waited: %v by %q, error %v; want %v by alice", granted, decider, err, grant)
			}
			if took := time.Since(began); took != time.Minute {
				t.Errorf("woke after %v, want at the decision after a minute", took)
			}
		})
	}
}

func TestWaitExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memoryStore{}
		var told []consent.ApprovalState
		d := newService(t, s, func(c *Config) { c.Notify = func(a consent.Approval) { told = append(told, a.State) } })
		a := request(t, d, shellAsk())
		began := time.Now()
		granted, decider, err := d.Wait(t.Context(), a.ID)
		if granted || decider != "" || err != nil {
			t.Errorf("waited: %v by %q, error %v; want denied by nobody", granted, decider, err)
		}
		if took := time.Since(began); took != 15*time.Minute {
			t.Errorf("expired after %v", took)
		}
		if !slices.Equal(told, []consent.ApprovalState{consent.ApprovalPending, consent.ApprovalExpired}) {
			t.Errorf("told %v", told)
		}
		if err := d.Decide(t.Context(), a.ID, true, "irc:alice"); !errors.Is(err, ErrExpired) {
			t.Errorf("decide after expiry: %v", err)
		}
	})
}

// TestAWaitOutlastsNoClock sets the clock back by five hours while a person is awaited.
func TestAWaitOutlastsNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shift time.Duration
		d := newService(t, &memoryStore{}, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(shift) } })
		a := request(t, d, shellAsk())
		shift = -5 * time.Hour
		began := time.Now()
		if granted, _, err := d.Wait(t.Context(), a.ID); granted || err != nil {
			t.Errorf("waited: %v, %v", granted, err)
		}
		if took := time.Since(began); took > 15*time.Minute+pollInterval {
			t.Errorf("a request that is good for 15 minutes was waited for for %s", took)
		}
	})
}

func TestWaitSeesADecisionOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memoryStore{}
		a := request(t, newService(t, s, nil), shellAsk())
		go func() {
			time.Sleep(time.Second)
			if err := newService(t, s, nil).Decide(context.Background(), a.ID, true, "irc:alice"); err != nil {
				t.Errorf("decide: %v", err)
			}
		}()
		if granted, _, err := newService(t, s, nil).Wait(t.Context(), a.ID); !granted || err != nil {
			t.Errorf("waited: %v, error %v", granted, err)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memoryStore{}
		d := newService(t, s, nil)
		a := request(t, d, shellAsk())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if granted, _, err := d.Wait(ctx, a.ID); granted || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited: %v, error %v", granted, err)
		}
		if row, _ := s.Approval(t.Context(), a.ID); row.State != consent.ApprovalPending {
			t.Errorf("the request is %s; a turn that stops waiting must not decide", row.State)
		}
	})
}

func TestExpiredGrantIsWorthNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newService(t, &memoryStore{}, nil)
		a := request(t, d, shellAsk())
		if err := d.Decide(t.Context(), a.ID, true, "irc:alice"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Minute)
		if err := d.Consume(t.Context(), a.ID, shellAsk().Binding); !errors.Is(err, ErrExpired) {
			t.Errorf("consume: %v, want expired", err)
		}
		if b := request(t, d, shellAsk()); b.ID == a.ID {
			t.Error("an expired grant was taken up")
		}
	})
}

func TestPendingEndsWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memoryStore{}
		d := newService(t, s, nil)
		old := request(t, d, shellAsk())
		time.Sleep(10 * time.Minute)
		ask := shellAsk()
		ask.Turn = "t2"
		fresh := request(t, d, ask)
		time.Sleep(6 * time.Minute)
		pending, err := d.Pending(t.Context())
		if err != nil || len(pending) != 1 || pending[0].ID != fresh.ID {
			t.Errorf("pending %+v, error %v; want the fresh one", pending, err)
		}
		if row, _ := s.Approval(t.Context(), old.ID); row.State != consent.ApprovalExpired {
			t.Errorf("the old one is %s", row.State)
		}
	})
}
