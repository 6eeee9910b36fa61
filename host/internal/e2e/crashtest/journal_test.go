package crashtest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// kind is a sort of message, by what the demo model makes of it.
type kind string

const (
	plain  kind = "plain"  // answered with its own text
	slow   kind = "slow"   // the same, after a while
	stream kind = "stream" // the same, word by word
	write  kind = "write"  // writes a note
	begin  kind = "begin"  // makes the file that effect adds to
	effect kind = "effect" // adds a line to a file: running it twice shows
	read   kind = "read"   // reads a note back
)

// tool reports whether the answer comes of a tool call. Such a message is alone in its turn, and its answer names it by
// Reply.ReplyTo, for a call that was interrupted has nothing else to say of it.
func (k kind) tool() bool { return slices.Contains([]kind{write, begin, effect, read}, k) }

// success is how the answer begins when the call ran.
func (k kind) success() string {
	switch k {
	case write:
		return "remembered under"
	case begin:
		return "wrote "
	case effect:
		return "replaced 1 in"
	}
	return "the text of"
}

// sent is a message that was posted.
type sent struct {
	id           int
	conversation string
	kind         kind
	acked        bool
	answered     int // times
}

// journal is the platform's account of what was said and what was answered: the check of the test. It knows nothing of
// how the host works.
type journal struct {
	forgetful bool

	mu          sync.Mutex
	messages    map[int]*sent
	replies     []hosttest.Reply
	keys        map[string]bool // of the replies
	done        map[kind][]int  // tool messages whose answer says that the call ran
	failed      []string        // answers to tool messages that say anything else
	interrupted int
	open        int           // messages without an answer
	changed     chan struct{} // closed and replaced with each answer

	waiting map[int]bool // taken over by a process that was killed, unanswered
	since   time.Time    // start of the process that has to answer them; zero when nothing is measured
	resumed []time.Duration
}

func newJournal(forgetful bool) *journal {
	return &journal{forgetful: forgetful, messages: map[int]*sent{}, keys: map[string]bool{}, done: map[kind][]int{}, changed: make(chan struct{})}
}

// tag is how a text carries the number of its message.
func tag(id int) string { return fmt.Sprintf("[%d]", id) }

var tags = regexp.MustCompile(`\[(\d+)\]`)

// post notes a message and returns its number.
func (l *journal) post(conversation string, k kind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &sent{id: len(l.messages) + 1, conversation: conversation, kind: k}
	l.messages[m.id] = m
	l.open++
	return m.id
}

// ack notes that the host has taken a message over.
func (l *journal) ack(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.named(event); m != nil {
		m.acked = true
	}
}

func (l *journal) named(event string) *sent {
	id, _ := strconv.Atoi(event)
	return l.messages[id]
}

// show notes a reply and returns the messages that it is the first to answer.
func (l *journal) show(r hosttest.Reply) []*sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replies = append(l.replies, r)
	if l.keys[r.Key] {
		return nil
	}
	l.keys[r.Key] = true
	l.noteTool(r)
	var first []*sent
	for _, m := range l.answeredBy(r) {
		m.answered++
		l.measure(m, r)
		if m.answered == 1 {
			l.open--
			first = append(first, m)
		}
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return first
}

// noteTool tells calls that ran from those that were interrupted.
func (l *journal) noteTool(r hosttest.Reply) {
	m := l.named(r.ReplyTo)
	switch {
	case m == nil || !m.kind.tool():
	case strings.Contains(r.Text, "was restarted while this call ran"):
		l.interrupted++
	case strings.HasPrefix(r.Text, m.kind.success()):
		l.done[m.kind] = append(l.done[m.kind], m.id)
	default:
		l.failed = append(l.failed, fmt.Sprintf("%d (%s): %q", m.id, m.kind, r.Text))
	}
}

// ran returns the messages of a kind whose tool call ran to its end.
func (l *journal) ran(k kind) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.done[k])
}

// answeredBy returns the messages that a reply answers, in the order in which it names them.
func (l *journal) answeredBy(r hosttest.Reply) []*sent {
	if m := l.named(r.ReplyTo); m != nil && m.kind.tool() {
		return []*sent{m}
	}
	var ms []*sent
	for _, found := range tags.FindAllStringSubmatch(r.Text, -1) {
		if m := l.named(found[1]); m != nil {
			ms = append(ms, m)
		}
	}
	return ms
}

// measure takes the time of the first answer, over a new connection, to a message that the killed process had taken over.
func (l *journal) measure(m *sent, r hosttest.Reply) {
	if l.since.IsZero() || r.Link.Before(l.since) || !l.waiting[m.id] {
		return
	}
	l.resumed = append(l.resumed, r.At.Sub(l.since))
	l.since = time.Time{}
}

// killed notes that the process was killed and returns how many messages it had taken over and not answered.
func (l *journal) killed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = map[int]bool{}
	for _, m := range l.messages {
		if m.acked && m.answered == 0 {
			l.waiting[m.id] = true
		}
	}
	return len(l.waiting)
}

// firstOf returns when the first of some messages was answered after a time; the zero time if none was.
func (l *journal) firstOf(messages map[int]bool, since time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.replies {
		if r.At.After(since) && slices.ContainsFunc(l.answeredBy(r), func(m *sent) bool { return messages[m.id] }) {
			return r.At
		}
	}
	return time.Time{}
}

// waits reports whether one of some messages has no answer.
func (l *journal) waits(messages map[int]bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range messages {
		if l.messages[id].answered == 0 {
			return true
		}
	}
	return false
}

// latest returns when the last answer came; the zero time before the first.
func (l *journal) latest() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.replies) == 0 {
		return time.Time{}
	}
	return l.replies[len(l.replies)-1].At
}

// started notes the start of the next process.
func (l *journal) started(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = at
}

// unanswered is the number of messages without an answer, with a channel that is closed when it may have changed.
func (l *journal) unanswered() (int, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open, l.changed
}

// findings is what the journal found. Everything but total, marked, thrice and interrupted has to be empty.
type findings struct {
	total       int
	lost        []int    // never answered
	twice       []int    // answered by replies of two keys
	repeated    []string // keys that were shown again without a mark, or too often
	disordered  []string // answers that came before an earlier one's
	strange     []string // replies to nothing
	failed      []string // tool calls that did not do what they should
	marked      int      // replies that were shown again with the mark
	thrice      int      // of them, more than once
	interrupted int      // tool calls whose fate is unknown, and said so
}

// check looks at everything that was shown.
func (l *journal) check() findings {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := findings{total: len(l.messages), failed: l.failed, interrupted: l.interrupted}
	for id := range len(l.messages) {
		switch m := l.messages[id+1]; {
		case m.answered == 0:
			v.lost = append(v.lost, m.id)
		case m.answered > 1:
			v.twice = append(v.twice, m.id)
		}
	}
	l.checkKeys(&v)
	l.checkOrder(&v)
	return v
}

// checkKeys looks for replies that people saw more than once. Where keys are not recognised, all but one of the appearances
// have to carry the mark; a marked one may come first when the other was under way. A third appearance takes two kills
// that each hit between what people see and the note of it, and the loss that it prevents would be worse.
func (l *journal) checkKeys(v *findings) {
	seen, unmarked := map[string]int{}, map[string]int{}
	for _, r := range l.replies {
		seen[r.Key]++
		if !r.Marked {
			unmarked[r.Key]++
		}
	}
	for key, n := range seen {
		switch {
		case n > 1 && !l.forgetful, unmarked[key] > 1:
			v.repeated = append(v.repeated, fmt.Sprintf("%s: %d times, %d without a mark", key, n, unmarked[key]))
		case n > 1:
			v.marked++
			v.thrice += min(1, n-2)
		}
	}
}

// checkOrder looks at the first appearance of each reply: within a conversation the numbers have to rise.
func (l *journal) checkOrder(v *findings) {
	last, keys := map[string]int{}, map[string]bool{}
	for _, r := range l.replies {
		if keys[r.Key] {
			continue
		}
		keys[r.Key] = true
		answered := l.answeredBy(r)
		if len(answered) == 0 {
			v.strange = append(v.strange, fmt.Sprintf("%s to %q: %q", r.Key, r.ReplyTo, r.Text))
		}
		for _, m := range answered {
			if r.Conversation != m.conversation {
				v.strange = append(v.strange, fmt.Sprintf("%s shows in %s what was said in %s", r.Key, r.Conversation, m.conversation))
			}
			if m.id < last[m.conversation] {
				v.disordered = append(v.disordered, fmt.Sprintf("%d after %d in %s", m.id, last[m.conversation], m.conversation))
			}
			last[m.conversation] = m.id
		}
	}
}

// problems puts what must not be into words.
func (v findings) problems() []string {
	var all []string
	for _, f := range []struct {
		what string
		n    int
		list any
	}{
		{"lost", len(v.lost), v.lost}, {"answered twice", len(v.twice), v.twice}, {"repeated", len(v.repeated), v.repeated},
		{"out of order", len(v.disordered), v.disordered}, {"strange", len(v.strange), v.strange},
		{"failed", len(v.failed), v.failed},
	} {
		if f.n > 0 {
			all = append(all, fmt.Sprintf("%d %s: %.600v", f.n, f.what, fmt.Sprint(f.list)))
		}
	}
	return all
}

// textFor is the text of the answer to a tool message.
func (l *journal) textFor(event string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range slices.Backward(l.replies) {
		if r.ReplyTo == event {
			return r.Text
		}
	}
	return ""
}
