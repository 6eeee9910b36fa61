// Package signin signs people in at the console: a sender who is admitted gets a link in his own chat, which is good once and for minutes,
// and the browser that opens it gets a token.
//
// Start with Service. Offer makes the code of a link, Use turns it into a token, and Of says whose token a request carries. The package
// knows nothing of roles: its callers ask for each request again what a sender may do, so that a person who is not admitted any more is out
// at once. Only digests of codes and tokens are kept.
package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/flynnhost/flynn/host/access/signins"
	"github.com/flynnhost/flynn/host/internal/clock"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Bounds of sign-ins.
const (
	CodeValid = 10 * time.Minute
	Unused    = 30 * 24 * time.Hour // after which a sign-in ends
	Most      = 10                  // sign-ins of one sender; a further one ends the one that was used least recently
	secret    = 32                  // bytes of codes and tokens
	usedEvery = time.Hour           // how often the time of the last use is stored
)

// Wrong codes are answered at this rate. A right one always passes: with 256 random bits there is nothing to guess.
const (
	wrongPerSecond = 1
	wrongBurst     = 10
)

// Config configures a Service. Store is required.
type Config struct {
	Store signins.Store
	Now   func() time.Time
	Log   *slog.Logger
}

// Service keeps the sign-ins of a host.
type Service struct {
	cfg   Config
	wrong *rate.Limiter

	mu   sync.Mutex                // held over writes, so that the map matches the store
	byID map[string]signins.SignIn // as stored, but for Used
	ids  map[string]string         // by the digest of the token
}

// Open loads the stored sign-ins.
func Open(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{cfg: cfg, wrong: rate.NewLimiter(wrongPerSecond, wrongBurst)}
	if err := s.Refresh(ctx); err != nil {
		return nil, err
	}
	return s, s.prune(ctx)
}

// Refresh reads the sign-ins again, which another host may have changed.
func (s *Service) Refresh(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := s.cfg.Store.ListSignIns(ctx)
	if err != nil {
		return fmt.Errorf("read the sign-ins: %w", err)
	}
	before := s.byID
	s.byID, s.ids = map[string]signins.SignIn{}, map[string]string{}
	for _, in := range list {
		if known, ok := before[in.ID]; ok && known.Used.After(in.Used) {
			in.Used = known.Used
		}
		s.byID[in.ID], s.ids[in.Digest] = in, in.ID
	}
	return nil
}

// Offer makes the code of a link for a sender, and ends the codes that he got by other messages. event is the message that asks.
func (s *Service) Offer(ctx context.Context, sender message.SenderKey, event string) (code string, err error) {
	code, now := random(), s.cfg.Now().UTC()
	c := signins.Code{Digest: digest(code), Sender: sender, Event: event, Asked: now, Expires: now.Add(CodeValid)}
	if err := s.cfg.Store.PutCode(context.WithoutCancel(ctx), c); err != nil {
		return "", err
	}
	s.cfg.Log.Info("a link to the console was asked for", "sender", sender)
	return code, nil
}

// Errors of Use, with texts for people.
var (
	ErrCode    error = store.NotFound("this link is not good any more: write /console in your chat for another one")
	ErrLimited error = limited{}
)

type limited struct{}

func (limited) Error() string { return "too many wrong links; wait a second" }

// LockedOut marks the error for the gateway.
func (limited) LockedOut() bool { return true }

// Use signs the sender of a code in, and returns the token of the sign-in. The code is used up.
func (s *Service) Use(ctx context.Context, code string) (token string, in signins.SignIn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now().UTC()
	token = random()
	in, err = s.cfg.Store.UseCode(context.WithoutCancel(ctx), digest(code), signins.SignIn{ID: store.NewID(now), Digest: digest(token), Began: now, Used: now})
	switch {
	case errors.Is(err, store.ErrNotFound) && !s.wrong.Allow():
		return "", in, ErrLimited
	case errors.Is(err, store.ErrNotFound):
		return "", in, ErrCode
	case err != nil:
		return "", in, err
	}
	s.byID[in.ID], s.ids[in.Digest] = in, in.ID
	s.cfg.Log.Info("signed in at the console", "sender", in.Sender, "sign_in", in.ID)
	return token, in, errors.Join(s.bound(ctx, in.Sender), s.prune(ctx))
}

// bound ends the sign-ins of a sender beyond Most. s.mu is held.
func (s *Service) bound(ctx context.Context, sender message.SenderKey) error {
	list := s.list(func(in signins.SignIn) bool { return in.Sender == sender })
	slices.SortFunc(list, func(a, b signins.SignIn) int { return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(b.ID, a.ID)) })
	var errs []error
	for _, in := range list[min(len(list), Most):] {
		errs = append(errs, s.end(ctx, in, "newer ones"))
	}
	return errors.Join(errs...)
}

// Of returns the sign-in of a token.
func (s *Service) Of(token string) (signins.SignIn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in, ok := s.byID[s.ids[digest(token)]]
	now := s.cfg.Now().UTC()
	if !ok || !live(in, now) {
		return signins.SignIn{}, false
	}
	if now.Sub(in.Used) >= usedEvery {
		in.Used = now
		s.byID[in.ID] = in
		if err := s.cfg.Store.TouchSignIn(context.Background(), in.ID, now); err != nil {
			s.cfg.Log.Warn("cannot record the use of a sign-in", "sign_in", in.ID, "error", err)
		}
	}
	return in, true
}

// Lasts reports whether a sign-in has not ended.
func (s *Service) Lasts(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	in, ok := s.byID[id]
	return ok && live(in, s.cfg.Now())
}

// live reports whether a sign-in was used lately. A clock that was set back does not prolong it.
func live(in signins.SignIn, now time.Time) bool {
	return clock.Within(in.Used, in.Used.Add(Unused), now)
}

// List returns the sign-ins of a sender, or of all if sender is empty, latest first.
func (s *Service) List(sender message.SenderKey) []signins.SignIn {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	return s.list(func(in signins.SignIn) bool { return live(in, now) && (sender == "" || in.Sender == sender) })
}

func (s *Service) list(keep func(signins.SignIn) bool) []signins.SignIn {
	var out []signins.SignIn
	for _, in := range s.byID {
		if keep(in) {
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(a, b signins.SignIn) int { return cmp.Compare(b.ID, a.ID) })
	return out
}

// End ends a sign-in at once, even if the commit fails; then it returns the error. With a sender, it ends only a sign-in of that sender.
func (s *Service) End(ctx context.Context, id string, sender message.SenderKey, by string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	in, ok := s.byID[id]
	if !ok || sender != "" && in.Sender != sender {
		return store.NotFound("there is no such sign-in; flynn console list shows all")
	}
	return s.end(ctx, in, by)
}

// EndAll ends the sign-ins of a sender, and the links that he has not used.
func (s *Service) EndAll(ctx context.Context, sender message.SenderKey, by string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := []error{s.cfg.Store.DropCodes(context.WithoutCancel(ctx), sender)}
	for _, in := range s.list(func(in signins.SignIn) bool { return in.Sender == sender }) {
		errs = append(errs, s.end(ctx, in, by))
	}
	return errors.Join(errs...)
}

// end ends a sign-in. s.mu is held.
func (s *Service) end(ctx context.Context, in signins.SignIn, by string) error {
	delete(s.byID, in.ID)
	delete(s.ids, in.Digest)
	s.cfg.Log.Info("a sign-in at the console has ended", "sender", in.Sender, "sign_in", in.ID, "by", by)
	return s.cfg.Store.DropSignIn(context.WithoutCancel(ctx), in.ID)
}

// prune ends the sign-ins that were not used for long. s.mu is held.
func (s *Service) prune(ctx context.Context) error {
	now := s.cfg.Now()
	var errs []error
	for _, in := range s.list(func(in signins.SignIn) bool { return !live(in, now) }) {
		errs = append(errs, s.end(ctx, in, "time"))
	}
	return errors.Join(errs...)
}

// random returns a new code or token, in characters that an address needs no escapes for.
func random() string {
	raw := make([]byte, secret)
	_, _ = rand.Read(raw) // never fails
	return base64.RawURLEncoding.EncodeToString(raw)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
