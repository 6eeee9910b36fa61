package pairing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flynnhost/flynn/host/access/pairings"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/internal/event"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// site is a service over a real store.
type site struct {
	t       *testing.T
	dir     string
	store   *sqlite.Store
	service *Service
	role    string
	replied []message.Reply
	revoked []string
	counted map[Event]int
	events  int
}

// inTime runs a test whose clock stands still until it sleeps.
func inTime(t *testing.T, test func(*testing.T, *site)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &site{t: t, dir: dir, role: route.Guest, counted: map[Event]int{}}
		s.open()
		defer func() { s.store.Close() }()
		test(t, s)
	})
}

func (s *site) open() {
	s.t.Helper()
	var err error
	if s.store, err = sqlite.Open(s.t.Context(), s.dir); err != nil {
		s.t.Fatal(err)
	}
	s.openService(s.store)
}

func (s *site) openService(over pairings.Store) {
	s.t.Helper()
	var err error
	s.service, err = Open(s.t.Context(), Config{
		Store: over, Role: func() string { return s.role },
		Outbox: s,
		Events: event.Only(func(h Happened) {
			if s.counted[h.Event]++; h.Event == Revoked {
				s.revoked = append(s.revoked, string(h.Sender))
			}
		}),
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// Push implements Outbox.
func (s *site) Push(_ string, r message.Reply) { s.replied = append(s.replied, r) }

// restart opens everything anew, as the next process would.
func (s *site) restart() {
	s.t.Helper()
	if err := s.store.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.open()
}

// knock is a message of a stranger in a private chat, and an event of its own.
func (s *site) knock(who, text string) message.Message {
	s.events++
	return message.Message{
		Channel: "irc", EventID: fmt.Sprint("e", s.events), Text: text, Addressed: true,
		Sender: message.Sender{ID: who, Name: strings.ToUpper(who) + "\x1b[2K"}, Conversation: message.Conversation{ID: who, Kind: message.DM},
	}
}

func (s *site) offer(m message.Message) {
	s.t.Helper()
	said := m.Text
	m.Text = ""
	if _, _, err := s.service.Offer(s.t.Context(), Stranger{Message: m, Note: "sender is not paired", Said: said}); err != nil {
		s.t.Fatal(err)
	}
}

// code has a stranger ask and returns his code.
func (s *site) code(who string) string {
	s.t.Helper()
	s.offer(s.knock(who, "hello"))
	for _, p := range s.service.List() {
		if p.Sender == message.NewSenderKey("irc", who) && p.State == pairings.Open {
			return p.Code
		}
	}
	s.t.Fatalf("%s has no code", who)
	return ""
}

func (s *site) decide(code string, approve bool, by string) error {
	_, err := s.service.Decide(s.t.Context(), code, approve, by)
	return err
}

func (s *site) expectRole(who, want string) {
	s.t.Helper()
	role, paired := s.service.Role(message.SenderKey("irc:" + who))
	if paired != (want != "") || role != want {
		s.t.Errorf("%s is %q, paired=%v; want %q", who, role, paired, want)
	}
}

func (s *site) expectReplies(want int) {
	s.t.Helper()
	rows, err := s.store.UnsentOutbox(s.t.Context())
	if err != nil || len(rows) != want {
		s.t.Errorf("%d replies in the outbox (%v), want %d", len(rows), err, want)
	}
}

func TestAPairing(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		code := s.code("eve")
		shown := ShowCode(code)
		if len(s.replied) != 1 || !strings.Contains(s.replied[0].Text, shown) || s.replied[0].ReplyTo != "e1" || s.replied[0].Conversation.ID != "eve" {
			t.Fatalf("told %+v", s.replied)
		}
		if p := s.service.List()[0]; p.Name != "EVE[2K" || p.Expires.Sub(p.Asked) != Valid {
			t.Errorf("the request is %+v", p)
		}
		s.expectRole("eve", "")
		s.restart()
		if err := s.decide(strings.ToLower(shown), true, "irc:ann"); err != nil {
			t.Fatal(err)
		}
		s.expectRole("eve", route.Guest)
		if err := s.decide(code, true, "irc:bob"); err != nil {
			t.Errorf("a double click: %v", err)
		}
		if err := s.decide(code, false, "irc:bob"); !errors.Is(err, ErrDecided) {
			t.Errorf("another answer: %v", err)
		}
		s.expectReplies(2)
		s.restart()
		s.expectRole("eve", route.Guest)
		if p := s.service.List()[0]; p.By != "irc:ann" {
			t.Errorf("decided by %q", p.By)
		}
		time.Sleep(30 * 24 * time.Hour)
		s.expectRole("eve", route.Guest)
		if err := s.decide(code, true, "irc:ann"); !errors.Is(err, ErrCode) {
			t.Errorf("a code that has run out: %v", err)
		}
		s.offer(s.knock("eve", "hello"))
		s.expectReplies(2) // who is paired gets no code
	})
}

func TestTheRoleThatAPairingGives(t *testing.T) {
	for configured, want := range map[string]string{"guest": "guest", "member": "member", "owner": "guest", "": "guest"} {
		t.Run(configured, func(t *testing.T) {
			inTime(t, func(t *testing.T, s *site) {
				s.role = configured
				if err := s.decide(s.code("eve"), true, "web:owner"); err != nil {
					t.Fatal(err)
				}
				s.expectRole("eve", want)
			})
		})
	}
}

func TestRolesAreRaisedApart(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		if err := s.decide(s.code("eve"), true, "web:owner"); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			sender, role string
			want         error
		}{
			{"irc:eve", "member", nil}, {"irc:eve", "owner", ErrRole}, {"irc:eve", "", ErrRole}, {"irc:bob", "member", ErrUnknown}, {"eve", "member", ErrUnknown},
		} {
			if err := s.service.SetRole(t.Context(), message.SenderKey(c.sender), c.role, "web:owner"); !errors.Is(err, c.want) {
				t.Errorf("%s to %q: %v, want %v", c.sender, c.role, err, c.want)
			}
		}
		s.restart()
		s.expectRole("eve", route.Member)
		if err := s.service.SetRole(t.Context(), "irc:eve", "guest", "web:owner"); err != nil {
			t.Fatal(err)
		}
		s.expectRole("eve", route.Guest)
	})
}

func TestOneAnswerAnHour(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		first := s.code("eve")
		for range 100 {
			s.offer(s.knock("eve", "hello?"))
		}
		s.expectReplies(1)
		time.Sleep(Valid - time.Second)
		s.restart()
		s.offer(s.knock("eve", "hello?"))
		s.expectReplies(1)
		if len(s.service.List()) != 1 {
			t.Error("the request has gone too early")
		}
		time.Sleep(time.Second)
		if len(s.service.List()) != 0 {
			t.Error("a code that has run out is listed")
		}
		if err := s.decide(first, true, "irc:ann"); !errors.Is(err, ErrCode) {
			t.Errorf("a code that has run out: %v", err)
		}
		if second := s.code("eve"); second == first {
			t.Error("the second code is the first")
		}
		s.expectReplies(2)
	})
}

func TestDeniedIsQuiet(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		code := s.code("eve")
		if err := s.decide(code, false, "irc:ann"); err != nil {
			t.Fatal(err)
		}
		if err := s.decide(code, true, "irc:bob"); !errors.Is(err, ErrDecided) {
			t.Errorf("approved after all: %v", err)
		}
		s.expectRole("eve", "")
		time.Sleep(quiet - time.Second)
		s.offer(s.knock("eve", "hello?"))
		s.expectReplies(1) // the code; that it was denied is not said
		time.Sleep(time.Second)
		s.offer(s.knock("eve", "hello?"))
		s.expectReplies(2)
	})
}

func TestRevoked(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		code := s.code("eve")
		if err := s.decide(code, true, "irc:ann"); err != nil {
			t.Fatal(err)
		}
		if err := s.service.Revoke(t.Context(), "irc:eve", "irc:ann"); err != nil {
			t.Fatal(err)
		}
		s.expectRole("eve", "")
		if len(s.revoked) != 1 || s.revoked[0] != "irc:eve" {
			t.Errorf("told of %q", s.revoked)
		}
		if err := s.service.Revoke(t.Context(), "irc:eve", "irc:ann"); !errors.Is(err, ErrUnknown) {
			t.Errorf("revoked twice: %v", err)
		}
		if err := s.decide(code, true, "irc:ann"); !errors.Is(err, ErrCode) {
			t.Errorf("the old code: %v", err)
		}
		s.restart()
		s.expectRole("eve", "")
		s.offer(s.knock("eve", "hello?"))
		s.expectReplies(2) // the code and the welcome
	})
}

// fullStore takes nothing more.
type fullStore struct{ *sqlite.Store }

func (fullStore) PutPairing(context.Context, pairings.Pairing, string, []message.Reply) ([]message.Reply, error) {
	return nil, errors.New("disk full")
}

func TestWhatIsTakenAwayCountsWithoutTheDisk(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		if err := s.decide(s.code("eve"), true, "irc:ann"); err != nil {
			t.Fatal(err)
		}
		code := s.code("bob")
		s.openService(fullStore{s.store})
		if err := s.decide(code, true, "irc:ann"); err == nil {
			t.Error("approved on a full disk")
		}
		s.expectRole("bob", "")
		if err := s.service.Revoke(t.Context(), "irc:eve", "irc:ann"); err == nil || len(s.revoked) != 1 {
			t.Errorf("revoked on a full disk: %v, told of %q", err, s.revoked)
		}
		s.expectRole("eve", "")
	})
}

// TestAMobKeepsNobodyFromACode: strangers without end leave room for the next one, whose code is good, and those whose ids nobody has
// verified push out none of those whose ids somebody has.
func TestAMobKeepsNobodyFromACode(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		known := s.code("amy")
		for i := range MaxOpen + 20 {
			s.offer(s.knock(fmt.Sprint("?eve", i), "hello"))
			time.Sleep(time.Second)
		}
		if n := len(s.service.List()); n != MaxOpen+1 || s.counted[Full] != 20 {
			t.Errorf("%d requests are open, %d made room", n, s.counted[Full])
		}
		code := s.code("?bob")
		s.restart()
		if n := len(s.service.List()); n != MaxOpen+1 {
			t.Errorf("%d requests are open after a restart", n)
		}
		if err := s.decide(code, true, "irc:ann"); err != nil {
			t.Errorf("the code of the next stranger: %v", err)
		}
		for i := range MaxOpen - 1 {
			s.offer(s.knock(fmt.Sprint("zoe", i), "hello"))
		}
		if err := s.decide(known, true, "irc:ann"); err != nil {
			t.Errorf("the code of the first: %v", err)
		}
		m := s.knock("zoe", "hello")
		m.Channel = "matrix"
		s.offer(m)
		time.Sleep(Valid)
		s.code("last")
		rows, err := s.store.ListPairings(t.Context())
		if err != nil || len(rows) != 3 {
			t.Errorf("%d rows are kept (%v), want two who are paired and one who asks", len(rows), err)
		}
	})
}

// A late second delivery of a message that was answered with a code gets no second one.
func TestALateDeliveryIsNotAnswered(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		m := s.knock("eve", "hello")
		s.offer(m)
		if row, err := s.store.FindInbox(t.Context(), "irc", m.EventID); err != nil || row.State != mailbox.InboxDropped || row.Message.Text != "" {
			t.Fatalf("kept as %+v (%v)", row, err)
		}
		time.Sleep(2 * time.Hour)
		s.offer(m)
		s.expectReplies(1)
	})
}

func TestGuessing(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		code := s.code("eve")
		wrong := "AAAAAAAA"
		for i := range maxWrong {
			if err := s.decide(wrong, true, "irc:mallory"); !errors.Is(err, ErrCode) {
				t.Errorf("guess %d: %v", i, err)
			}
			if err := s.decide("no code", true, "irc:ann"); !errors.Is(err, ErrCode) {
				t.Errorf("a slip: %v", err)
			}
		}
		for range 3 {
			if err := s.decide(code, true, "irc:mallory"); !errors.Is(err, ErrLocked) {
				t.Errorf("the right code of who is locked out: %v", err)
			}
		}
		if s.counted[WrongCode] != maxWrong || s.counted[LockedOut] != 1 {
			t.Errorf("counted %v", s.counted)
		}
		s.restart()
		if err := s.decide(code, true, "irc:mallory"); !errors.Is(err, ErrLocked) {
			t.Errorf("after a restart: %v", err)
		}
		s.expectRole("eve", "")
		if err := s.decide(code, true, "irc:ann"); err != nil {
			t.Errorf("another pays for it: %v", err)
		}
		time.Sleep(lockTime)
		if err := s.decide(s.code("bob"), true, "irc:mallory"); err != nil {
			t.Errorf("after the hour: %v", err)
		}
		for range 2 { // a right code makes up for wrong ones
			for range maxWrong - 1 {
				s.decide(wrong, true, "irc:ann")
			}
			if err := s.decide(s.code(fmt.Sprint("zoe", s.events)), true, "irc:ann"); err != nil {
				t.Errorf("after %d wrong codes: %v", maxWrong-1, err)
			}
		}
	})
}

func TestStrangersGuess(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		s.code("eve") // has asked already
		for range maxWrong {
			s.offer(s.knock("mallory", " /Pair ABCD-EFGH "))
		}
		s.expectReplies(2) // eve's code and mallory's
		time.Sleep(Valid - time.Minute)
		s.restart()
		s.offer(s.knock("mallory", "hello"))
		s.expectReplies(2)
		time.Sleep(time.Minute)
		s.offer(s.knock("mallory", "hello")) // locked out no more
		s.expectReplies(3)
		for range maxWrong + 2 {
			if _, err := s.service.Guess(t.Context(), "irc:bob"); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := s.service.Guess(t.Context(), "irc:bob"); err != nil || !out || s.counted[WrongCode] != 2*maxWrong {
			t.Errorf("locked out: %v, %v; counted %v", out, err, s.counted)
		}
	})
}

func TestGuessersAreBounded(t *testing.T) {
	inTime(t, func(t *testing.T, s *site) {
		for i := range maxGuesser + 20 {
			if _, err := s.service.Guess(t.Context(), fmt.Sprint("irc:", i)); err != nil {
				t.Fatal(err)
			}
		}
		rows, err := s.store.ListGuesses(t.Context())
		if err != nil || len(rows) > maxGuesser || len(s.service.guesses) > maxGuesser {
			t.Errorf("%d guessers are kept, %d in memory (%v)", len(rows), len(s.service.guesses), err)
		}
		time.Sleep(lockTime)
		if _, err := s.service.Guess(t.Context(), "irc:new"); err != nil {
			t.Fatal(err)
		}
		if rows, err = s.store.ListGuesses(t.Context()); err != nil || len(rows) != 1 {
			t.Errorf("%d guessers are kept after an hour (%v)", len(rows), err)
		}
	})
}
