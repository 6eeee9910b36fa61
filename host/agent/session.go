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
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// session is the cached part of a stored session. It belongs to the one turn that runs in its scope.
type session struct {
	key     message.SessionKey
	summary turnlog.Summary // of the turns before; zero if there is none
	told    shownSummary
	headed  headed
	turns   []endedTurn     // the last keepTurns after the summary, oldest first
	said    []model.Message // the messages of turns, which are slices of it
	labels  []string        // provenance, sorted
	used    transcript.Used // by ended turns
	count   int             // ended turns
	last    string          // id of the latest turn
	at      time.Time       // when the latest turn began
	// program is the agent CLI's own id of the session.
	program string
	// folder is the host folder that the first message of the conversation named, for an agent of kind cli.
	folder string
}

// shownSummary is a summary as a model reads it; zero if there is none.
type shownSummary struct {
	text string
	size int // estimated tokens of the summary
	full int // estimated tokens of the text
}

// headed is a summary with the turns after it, kept so that each turn appends to it.
type headed struct {
	summary  string
	first    string // id of the first turn
	turns    int
	messages []model.Message
}

// endedTurn is an ended turn as a model sees it.
type endedTurn struct {
	id       string
	messages []model.Message
	size     int // estimated tokens
}

const (
	keepTurns = 256 // a longer session is compacted, however short its turns are
	// keepBytes is the approximate memory of all cached sessions. A session that was not used within keepFor is dropped.
	keepBytes = 32 << 20
	keepFor   = 10 * time.Minute
)

// DefaultWindow is the context window of a tier that configures none, in tokens.
const DefaultWindow = 32 << 10

// Window returns how many tokens of a context window remain when an answer is reserved.
func Window(contextTokens, answerTokens int) int {
	if contextTokens == 0 {
		return DefaultWindow
	}
	return max(contextTokens-answerTokens, contextTokens/4)
}

func (s *session) add(id string, t *transcript.State) {
	ms := t.Messages()
	for i := range ms {
		ms[i].Thinking = nil // only for the tool loop that it came from
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
	if before := t.User.Used; before != nil { // absent in records of older versions
		s.used = *before
	}
	s.used.Join(t.Used())
	s.program = cliSession(t, s.program)
	s.folder = cmp.Or(s.folder, t.User.Folder)
}

// label adds provenance labels, which stay for the life of the session. It makes a new list, because tools keep the old one.
func (s *session) label(labels []string) { s.labels = tool.JoinLabels(s.labels, labels) }

// context returns the latest whole turns that fit into a window, oldest first, preceded by the summary of the earlier ones. Images are
// not counted. The slice has capacity for spare more messages and belongs to the session until its next turn is added: callers must
// copy messages before changing them.
func (s *session) context(window, spare int) earlier {
	first, size := len(s.turns), s.told.size
	for first > 0 && size+s.turns[first-1].size <= window {
		first--
		size += s.turns[first].size
	}
	if s.told.text != "" {
		return earlier{s.withSummary(s.turns[first:], spare), size - s.told.size + s.told.full}
	}
	s.grow(spare)
	return earlier{last(s.said, messagesIn(s.turns[first:])), size}
}

// grow makes room for more messages, so that a turn appends its own without copying the others for each call.
func (s *session) grow(messages int) {
	if len(s.said)+messages > cap(s.said) {
		s.hold(slices.Grow(s.said, messages))
	}
}

// hold makes said the backing array of the messages in all turns.
func (s *session) hold(said []model.Message) {
	s.said = said
	for i, t := range s.turns {
		s.turns[i].messages, said = said[:len(t.messages)], said[len(t.messages):]
	}
}

// last returns the last n messages.
func last(ms []model.Message, n int) []model.Message { return ms[len(ms)-n:] }

func messagesIn(turns []endedTurn) (n int) {
	for _, t := range turns {
		n += len(t.messages)
	}
	return n
}

// size returns the estimated tokens of the summary and of the turns after it.
func (s *session) size() int {
	n := s.told.size
	for _, t := range s.turns {
		n += t.size
	}
	return n
}

// withSummary returns the messages of turns with the summary before the first message, or in it if that is a person's: providers require
// alternating roles.
func (s *session) withSummary(turns []endedTurn, spare int) []model.Message {
	h := &s.headed
	if len(turns) == 0 {
		*h = headed{}
		return append(make([]model.Message, 0, 1+spare), model.Message{Role: model.User, Text: s.told.text})
	}
	if h.summary != s.told.text || h.first != turns[0].id {
		*h = headed{summary: s.told.text, first: turns[0].id, messages: make([]model.Message, 0, 1+messagesIn(turns)+spare)}
	}
	for _, t := range turns[h.turns:] {
		ms := t.messages
		if h.turns == 0 {
			head := model.Message{Role: model.User, Text: s.told.text}
			if len(ms) > 0 && ms[0].Role == model.User && len(ms[0].Results) == 0 {
				head, ms = ms[0], ms[1:]
				head.Text = s.told.text + "\n\n" + head.Text
			}
			h.messages = append(h.messages, head)
		}
		h.messages = append(h.messages, ms...)
		h.turns++
	}
	h.messages = slices.Grow(h.messages, spare)
	return h.messages
}

// bytes returns the approximate memory of the session.
func (s *session) bytes() int64 {
	const fixed, perMessage, perPart = 1 << 10, 200, 100
	n := fixed + 2*len(s.told.text) + perMessage*len(s.headed.messages)
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
	byKey  map[message.SessionKey]*list.Element
	recent *list.List // of *cached, most recent first
	bytes  int64      // of all
	sweep  *time.Timer
}

// cached is a session in the cache. Its size is that after its last turn, because a running turn owns the session.
type cached struct {
	*session
	bytes int64
	used  time.Time
}

func newSessions(s Store) *sessions {
	return &sessions{store: s, byKey: map[message.SessionKey]*list.Element{}, recent: list.New()}
}

// get returns a session, reading it from the store if it is not cached. Running turns are left out.
func (c *sessions) get(ctx context.Context, key message.SessionKey) (*session, error) {
	return c.find(ctx, key, true)
}

// look is like get for callers that only read. It does not cache a session without turns, so that unanswered messages do not evict
// others; that case takes one query. A session with turns is read completely, as its next turn needs it anyway.
func (c *sessions) look(ctx context.Context, key message.SessionKey) (*session, error) {
	return c.find(ctx, key, false)
}

func (c *sessions) find(ctx context.Context, key message.SessionKey, keepEmpty bool) (*session, error) {
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
	if now := c.atHand(key); now != nil { // another goroutine cached it meanwhile, with the turn's additions
		return now, nil
	}
	c.keep(s)
	return s, nil
}

// atHand returns a session from the cache, or nil.
func (c *sessions) atHand(key message.SessionKey) *session {
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

// keep caches a session after it was loaded or a turn was added. It replaces any other copy, which may have been made while the turn
// ran.
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

// drop removes a session from the cache. The caller holds c.mu.
func (c *sessions) drop(key message.SessionKey) {
	if e, ok := c.byKey[key]; ok {
		c.bytes -= c.recent.Remove(e).(*cached).bytes
		delete(c.byKey, key)
	}
}

// dropIdle drops the sessions that were not used within keepFor, and reschedules itself while any are left.
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

// forget drops a session from the cache after a turn that was not committed as planned.
func (c *sessions) forget(key message.SessionKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(key)
}

// forgetIn drops the sessions of a scope from the cache.
func (c *sessions) forgetIn(scope string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.byKey {
		if key.Parse().Scope == scope {
			c.drop(key)
		}
	}
}

func (c *sessions) load(ctx context.Context, key message.SessionKey) (*session, error) {
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
	if s.summary.ID > s.last { // made by /compact after the last turn, which could not count it
		s.used.Tokens += s.summary.Tokens
		s.used.CostUSD += s.summary.CostUSD
	}
	return s, nil
}
