package elevate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/consent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// room is elevated mode over a real store, with a clock of its own.
type room struct {
	*Mode
	t     *testing.T
	dir   string
	store *sqlite.Store
	now   time.Time
}

func newRoom(t *testing.T) *room {
	r := &room{t: t, dir: t.TempDir(), now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	r.open()
	t.Cleanup(func() { r.store.Close() })
	return r
}

func (r *room) open() {
	r.t.Helper()
	var err error
	if r.store, err = sqlite.Open(r.t.Context(), r.dir); err != nil {
		r.t.Fatal(err)
	}
	if r.Mode, err = New(Config{Store: r.store, Now: func() time.Time { return r.now }}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *room) begin(state string, span time.Duration) consent.Elevation {
	r.t.Helper()
	e, err := r.Mode.begin(r.t.Context(), "irc:#x", "irc:ann", state, r.now, span)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// holds is the state of the conversation, or "".
func (r *room) holds() string {
	r.t.Helper()
	e, ok, err := r.Of(r.t.Context(), "irc:#x")
	if err != nil {
		r.t.Fatal(err)
	}
	if !ok {
		return ""
	}
	return e.State
}

func (r *room) kinds() []string {
	r.t.Helper()
	rows, err := r.store.ListAudit(r.t.Context(), consent.AuditFilter{Subject: "irc:#x"})
	if err != nil {
		r.t.Fatal(err)
	}
	var kinds []string
	for _, row := range rows {
		kinds = append(kinds, row.Kind)
	}
	return kinds
}

func TestItHoldsForItsTime(t *testing.T) {
	r := newRoom(t)
	if got := r.holds(); got != "" {
		t.Fatalf("%s holds before it began", got)
	}
	r.begin(Ask, 15*time.Minute)
	r.now = r.now.Add(10 * time.Minute)
	r.store.Close() // and the host starts anew
	r.open()
	if got := r.holds(); got != Ask {
		t.Errorf("after a restart %q holds", got)
	}
	r.now = r.now.Add(-11 * time.Minute)
	if got := r.holds(); got != "" {
		t.Errorf("%s holds after the clock was set back", got)
	}
	r.now = r.now.Add(16 * time.Minute)
	if got := r.holds(); got != "" {
		t.Errorf("%s holds when its time is up", got)
	}
	for range 2 {
		if err := r.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := len(r.kinds()), 2; got != want {
		t.Errorf("audit has %v, want its begin and its end", r.kinds())
	}
}

func TestBeginAndEnd(t *testing.T) {
	r := newRoom(t)
	first := r.begin(Ask, time.Hour)
	again, err := r.Mode.begin(t.Context(), "irc:#x", "irc:ann", Ask, first.Began, time.Hour)
	if err != nil || again != first || len(r.kinds()) != 1 {
		t.Errorf("the same command once more: %+v, %v, audit %v", again, err, r.kinds())
	}
	r.now = r.now.Add(time.Minute)
	r.begin(On, time.Hour)
	if got := r.holds(); got != On {
		t.Errorf("%q holds", got)
	}
	for _, want := range []bool{true, false} {
		if ended, err := r.End(t.Context(), "irc:#x", "irc:ann", "by a test"); err != nil || ended != want {
			t.Errorf("end: %v, %v, want %v", ended, err, want)
		}
	}
	if got := r.holds(); got != "" {
		t.Errorf("%s holds after its end", got)
	}
	if err := r.Elevated(t.Context(), tool.Subject{Message: said("ann", r.now)}, tool.Decision{}); err != nil {
		t.Fatal(err)
	}
	want := []string{consent.AuditElevated, consent.AuditElevatedEnd, consent.AuditElevated, consent.AuditElevatedEnd, consent.AuditElevatedUsed}
	got := r.kinds()
	if len(got) != len(want) {
		t.Fatalf("audit %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("audit %v, want %v", got, want)
		}
	}
}

func TestBeginRefuses(t *testing.T) {
	r := newRoom(t)
	for name, begin := range map[string]func() error{
		"another state": func() error {
			_, err := r.Mode.begin(t.Context(), "irc:#x", "irc:ann", "full", r.now, time.Hour)
			return err
		},
		"nobody":  func() error { _, err := r.Mode.begin(t.Context(), "irc:#x", "", Ask, r.now, time.Hour); return err },
		"no time": func() error { _, err := r.Mode.begin(t.Context(), "irc:#x", "irc:ann", Ask, r.now, 0); return err },
		"over again": func() error {
			_, err := r.Mode.begin(t.Context(), "irc:#x", "irc:ann", Ask, r.now.Add(-2*time.Hour), time.Hour)
			return err
		},
	} {
		if begin() == nil {
			t.Errorf("%s: it began", name)
		}
	}
	if list, err := r.All(t.Context()); err != nil || len(list) != 0 || len(r.kinds()) != 0 {
		t.Errorf("%v, %v, audit %v", list, err, r.kinds())
	}
}

// brokenStore knows of one elevation that is over, and fails to end it at first.
type brokenStore struct {
	Store
	tried chan struct{}
	times int
	over  consent.Elevation
}

func (s *brokenStore) Elevations(context.Context) ([]consent.Elevation, error) {
	return []consent.Elevation{s.over}, nil
}

func (s *brokenStore) EndElevation(context.Context, message.ConversationKey, time.Time, consent.AuditRow) error {
	if s.times++; s.times == 1 {
		return errors.New("disk full")
	}
	if s.times == 2 {
		close(s.tried)
	}
	return nil
}

func TestRunEndsWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &brokenStore{tried: make(chan struct{}), over: consent.Elevation{Conversation: "irc:#x", State: Ask, Sender: "irc:ann", Until: time.Now()}}
		d, err := New(Config{Store: s})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- d.Run(ctx) }()
		<-s.tried
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
