package agent

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// session is the remembered part of one session: a cache of the store, owned by the one turn that runs in its place.
type session struct {
	key     string
	summary turnlog.Summary // of the turns before; the zero value where there is none
	told    shownSummary
	turns   []endedTurn     // after it, the last keepTurns, oldest first
	said    []model.Message // in turns, one after the other: theirs are parts of it
	labels  []string        // provenance, sorted
	used    transcript.Used // by ended turns
	count   int             // ended turns
	last    string          // id of the latest turn
	at      time.Time       // when that began
	// program is what the program of an agent of kind cli calls the session.
	program string
	// folder is the one of the host that a conversation with such an agent is about, as its first message named it.
	folder string
}

// shownSummary is a summary as a model reads it; the zero value is none.
type shownSummary struct {
	text string
	size int // tokens of the summary, as model.Rough guesses them
	full int // of the text
}

// endedTurn is one ended turn as a model sees it.
type endedTurn struct {
	id       string
	messages []model.Message
	size     int // tokens, as model.Rough guesses them
}

const (
	keepTurns = 256 // a session that grows past it is compacted, however short its turns are
	// The sessions at hand take so much memory in all, about, and none is kept at hand that was not asked for within keepFor.
	keepBytes = 32 << 20
	keepFor   = 10 * time.Minute
)

// DefaultWindow is how much a model is shown, in tokens, where its tier names no context window.
const DefaultWindow = 32 << 10

// Window is how many tokens a context window leaves beside an answer.
func Window(contextTokens, answerTokens int) int {
	if contextTokens == 0 {
		return DefaultWindow
	}
	return max(contextTokens-answerTokens, contextTokens/4)
}

func (s *session) add(id string, t *transcript.State) {
	ms := t.Messages()
	for i := range ms {
		ms[i].Thinking = nil // it is for the tool loop that it came from
	}
	size := roughly(ms)
	s.grow(len(ms))
	s.said = append(s.said, ms...)
	s.turns = append(s.turns, endedTurn{id, last(s.said, len(ms)), size})
	if extra := len(s.turns) - keepTurns; extra > 0 {
		s.said = last(s.said, messagesIn(s.turns[extra:]))
		s.turns = slices.Delete(s.turns, 0, extra)
	}
	s.label(t.Labels())
	if before := t.User.Used; before != nil { // an older version of the program did not record it
		s.used = *before
	}
	s.used.Join(t.Used())
	s.program = cliSession(t, s.program)
	s.folder = cmp.Or(s.folder, t.User.Folder)
}

// label adds provenance labels; they stay for the life of the session. The list is made anew, since tools keep the old one.
func (s *session) label(labels []string) { s.labels = tool.JoinLabels(s.labels, labels) }

// context returns the latest whole turns that fit a window, oldest first, with the summary of what came before. There is room for some
// more messages behind them. Images are not counted. The messages are the session's own until its next turn is added: what is to change in
// them is copied before.
func (s *session) context(window, spare int) past {
	first, size := len(s.turns), s.told.size
	for first > 0 && size+s.turns[first-1].size <= window {
		first--
		size += s.turns[first].size
	}
	s.grow(spare)
	ms := last(s.said, messagesIn(s.turns[first:]))
	if s.told.text == "" {
		return past{ms, size}
	}
	return past{s.withSummary(append(make([]model.Message, 0, 1+len(ms)+spare), ms...)), size - s.told.size + s.told.full}
}

// grow makes room for messages behind those that were said, so that a turn's own are appended to them and nothing is copied for a call.
func (s *session) grow(messages int) {
	if len(s.said)+messages > cap(s.said) {
		s.hold(slices.Grow(s.said, messages))
	}
}

// hold makes a copy of the messages in all turns the one that is kept.
func (s *session) hold(said []model.Message) {
	s.said = said
	for i, t := range s.turns {
		s.turns[i].messages, said = said[:len(t.messages)], said[len(t.messages):]
	}
}

// last are the last n of a list.
func last(ms []model.Message, n int) []model.Message { return ms[len(ms)-n:] }

func messagesIn(turns []endedTurn) (n int) {
	for _, t := range turns {
		n += len(t.messages)
	}
	return n
}

// size is what the summary and the turns after it take, in tokens.
func (s *session) size() int {
	n := s.told.size
	for _, t := range s.turns {
		n += t.size
	}
	return n
}

// withSummary puts the summary before the first message, into it where a person spoke: providers want speakers to take turns.
func (s *session) withSummary(ms []model.Message) []model.Message {
	if s.told.text == "" {
		return ms
	}
	if len(ms) > 0 && ms[0].Role == model.User && len(ms[0].Results) == 0 {
		ms[0].Text = s.told.text + "\n\n" + ms[0].Text
		return ms
	}
	return slices.Insert(ms, 0, model.Message{Role: model.User, Text: s.told.text})
}

// bytes is about what the session takes in memory.
func (s *session) bytes() int64 {
	const fixed, perMessage, perPart = 1 << 10, 200, 100
	n := fixed + len(s.told.text)
	for _, m := range s.said {
		n += perMessage + len(m.Text)
		for _, c := range m.Calls {
			n += perPart + len(c.Args)
		}
		for _, r := range m.Results {
			n += perPart + len(r.Text)
		}
	}
	return int64(n)
}

// sessions caches the most recently used sessions.
type sessions struct {
	store Store

	mu     sync.Mutex
	byKey  map[string]*list.Element
	recent *list.List // of *cached, latest first
	bytes  int64      // of all
	sweep  *time.Timer
}

// cached is a session in the cache. What it takes is known as of its last turn: meanwhile the session is its turn's.
type cached struct {
	*session
	bytes int64
	used  time.Time
}

func newSessions(s Store) *sessions {
	return &sessions{store: s, byKey: map[string]*list.Element{}, recent: list.New()}
}

// get returns a session, from the store when it is not at hand. Running turns are left out.
func (c *sessions) get(ctx context.Context, key string) (*session, error) {
	return c.find(ctx, key, true)
}

// look is get for who only wants to know. A session without a turn is not kept, so that messages which nobody answers push out
// no other; finding that there is none takes one query. One with turns is read whole, as its next turn needs it in any case.
func (c *sessions) look(ctx context.Context, key string) (*session, error) {
	return c.find(ctx, key, false)
}

func (c *sessions) find(ctx context.Context, key string, keepEmpty bool) (*session, error) {
	if s := c.atHand(key); s != nil {
		return s, nil
	}
	s, err := c.load(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("load session %s: %w", key, err)
	}
	if s.count == 0 && !keepEmpty {
		return s, nil
	}
	if now := c.atHand(key); now != nil { // put there meanwhile, and so with what a turn has added
		return now, nil
	}
	c.keep(s)
	return s, nil
}

// atHand is a session that is in the cache, or nil.
func (c *sessions) atHand(key string) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil
	}
	c.recent.MoveToFront(e)
	found := e.Value.(*cached)
	found.used = time.Now()
	return found.session
}

// keep puts a session into the cache as it is now, after it was loaded or a turn was added to it. It takes the place of any other
// copy, which may have been made while the turn ran.
func (c *sessions) keep(s *session) {
	bytes := s.bytes()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(s.key)
	c.byKey[s.key] = c.recent.PushFront(&cached{s, bytes, time.Now()})
	c.bytes += bytes
	for c.bytes > keepBytes && c.recent.Len() > 1 {
		c.drop(c.recent.Back().Value.(*cached).key)
	}
	if c.sweep == nil {
		c.sweep = time.AfterFunc(keepFor, c.dropIdle)
	}
}

// drop takes a session out of the cache. c.mu is held.
func (c *sessions) drop(key string) {
	if e, ok := c.byKey[key]; ok {
		c.bytes -= c.recent.Remove(e).(*cached).bytes
		delete(c.byKey, key)
	}
}

// dropIdle drops what nobody has asked for within keepFor, and comes again while there is anything left.
func (c *sessions) dropIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for e := c.recent.Back(); e != nil; e = c.recent.Back() {
		if rest := keepFor - now.Sub(e.Value.(*cached).used); rest > 0 {
			c.sweep = time.AfterFunc(rest, c.dropIdle)
			return
		}
		c.drop(e.Value.(*cached).key)
	}
	c.sweep = nil
}

// forget drops a session from the cache, after a turn that was not committed as planned.
func (c *sessions) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
}

func (c *sessions) load(ctx context.Context, key string) (*session, error) {
	s := &session{key: key}
	sum, err := c.store.Session(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.count, s.at = sum.Turns, sum.Last
	summary, err := c.store.LatestSummary(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	s.summed(summary)
	s.label(s.summary.Labels)
	steps, err := c.store.TranscriptAfter(ctx, key, s.summary.Through, keepTurns)
	if err != nil {
		return nil, err
	}
	running, err := c.store.RunningIn(ctx, key, keepTurns)
	if err != nil {
		return nil, err
	}
	s.count -= len(running)
	for len(steps) > 0 {
		id := steps[0].Turn
		s.last = id
		n := slices.IndexFunc(steps, func(st turnlog.Step) bool { return st.Turn != id })
		if n < 0 {
			n = len(steps)
		}
		if !slices.Contains(running, id) {
			t, err := transcript.Read(steps[:n])
			if err != nil {
				return nil, err
			}
			if s.used.Began.IsZero() {
				s.used.Began = steps[0].At
			}
			s.add(id, &t)
		}
		steps = steps[n:]
	}
	if s.summary.ID > s.last { // made by an order after the last turn, which could not count it
		s.used.Tokens += s.summary.Tokens
		s.used.CostUSD += s.summary.CostUSD
	}
	return s, nil
}
