package explore

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/host/internal/hosttest"
)

// kind is what a message asks for.
type kind string

const (
	plain    kind = "plain"    // answered with its own text, tag included
	shell    kind = "shell"    // a command on the host, for which a person is asked
	command  kind = "command"  // of the chat
	question kind = "question" // of a program, over the OpenAI API
)

// Fates of a shell command, as far as a person has decided.
const (
	undecided = ""
	granted   = "granted"
	denied    = "denied"
)

// said is a message that somebody has sent.
type said struct {
	id           int
	conversation string
	kind         kind
	text         string
	answers      int
	// excused is true where the answer may be missing: a person stopped the turn, or forgot the conversation, before it came.
	excused bool
	fate    string
	// doubtful is true where a kill may have cut off the command, or the news of the decision.
	doubtful bool
	halted   bool // the kill switch was thrown before it had an answer
	answer   string
}

// journal is the account of what was said and what was answered. It knows nothing of how the host works.
type journal struct {
	mu       sync.Mutex
	messages []*said // by id, from 1
	keys     map[string]bool
	problems []string
	changed  chan struct{} // closed and replaced with each reply
}

func newJournal() *journal { return &journal{keys: map[string]bool{}, changed: make(chan struct{})} }

// add writes down a message before it is sent.
func (l *journal) add(conversation string, k kind, text func(id int) string) *said {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &said{id: len(l.messages) + 1, conversation: conversation, kind: k}
	m.text = text(m.id)
	l.messages = append(l.messages, m)
	return m
}

// tag is how a text carries the number of its message through everything that is done to it.
func tag(id int) string { return fmt.Sprintf("#q%d#", id) }

var tags = regexp.MustCompile(`#q(\d+)#`)

// Keys of replies: the answer of a turn or of a command, and what comes beside it, such as requests and words on the way. Later parts of
// a long answer have their number behind the key.
var answerKey = regexp.MustCompile(`^[^/]+/0$`)

// shown writes down a reply. The platform calls it with each that people see.
func (l *journal) shown(r hosttest.Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() {
		close(l.changed)
		l.changed = make(chan struct{})
	}()
	if l.keys[r.Key] {
		l.problem("the reply %s was shown twice", r.Key)
		return
	}
	l.keys[r.Key] = true
	if !answerKey.MatchString(r.Key) {
		return
	}
	for _, m := range l.answered(r) {
		m.answers++
		m.answer = r.Text
		if m.answers > 1 {
			l.problem("message %d (%s, %s) has %d answers, the last %.200q", m.id, m.kind, m.conversation, m.answers, r.Text)
		}
		if m.conversation != r.Conversation {
			l.problem("message %d was said in %s, and answered in %s: %.200q", m.id, m.conversation, r.Conversation, r.Text)
		}
	}
}

// answered returns the messages that a reply answers: all whose text it repeats, and the one that it names.
func (l *journal) answered(r hosttest.Reply) (all []*said) {
	for _, found := range tags.FindAllStringSubmatch(r.Text, -1) {
		if m := l.named(found[1]); m != nil && m.kind == plain && !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	if m := l.named(r.ReplyTo); m != nil && !slices.Contains(all, m) {
		all = append(all, m)
	}
	return all
}

func (l *journal) named(id string) *said {
	n, err := strconv.Atoi(id)
	if err != nil || n < 1 || n > len(l.messages) {
		return nil
	}
	return l.messages[n-1]
}

func (l *journal) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// open is the number of messages in a conversation, or in all, that have no answer.
func (l *journal) open(conversation string) (n int, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.messages {
		if m.answers == 0 && !m.excused && (conversation == "" || m.conversation == conversation) {
			n++
		}
	}
	return n, l.changed
}

// excuse says that what is open in a conversation may stay without an answer.
func (l *journal) excuse(conversation string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.messages {
		if m.answers == 0 && m.conversation == conversation && m.kind != command {
			m.excused = true
		}
	}
}

// doubt says that the process was killed: a command that was under way may have been cut off.
func (l *journal) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.messages {
		if m.kind == shell && m.answers == 0 {
			m.doubtful = true
		}
	}
}

// halted says that the kill switch is about to be thrown.
func (l *journal) halted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.messages {
		m.halted = m.halted || m.answers == 0
	}
}

// told writes down what a program was answered.
func (l *journal) told(m *said, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m.answers++
	m.answer = text
	if found := tags.FindAllString(text, -1); !m.halted && (len(found) != 1 || found[0] != tag(m.id)) {
		l.problem("the question %d was answered with %.300q", m.id, text)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// decide writes down what a person has said about a command. A kill between the yes and the start of the command has it asked for again;
// otherwise the first yes is the last word.
func (l *journal) decide(id int, fate string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.named(strconv.Itoa(id)); m != nil && (m.fate != granted || m.doubtful) {
		m.fate = fate
	}
}

// judge looks at everything that has an answer. ran is how often each command has run.
func (l *journal) judge(ran map[int]int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	problems := slices.Clone(l.problems)
	report := func(m *said, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("message %d (%s, %s, %.80q): ", m.id, m.kind, m.conversation, m.text)+fmt.Sprintf(format, args...))
	}
	for _, m := range l.messages {
		if m.answers == 0 && !m.excused {
			report(m, "it has no answer")
		}
		if m.kind != shell {
			continue
		}
		switch n := ran[m.id]; {
		case n > 1:
			report(m, "the command ran %d times", n)
		case n > 0 && m.fate != granted:
			report(m, "the command ran, and was %q", m.fate)
		case n == 0 && m.fate == granted && !m.doubtful && !m.excused && !m.halted:
			report(m, "the command was granted and did not run; the answer is %.300q", m.answer)
		case n == 0 && m.fate == granted && m.doubtful && !m.excused && !m.halted && !cutOff(m.answer):
			report(m, "the command was granted, did not run, and the answer does not say why: %.300q", m.answer)
		}
	}
	return problems
}

// cutOff reports whether an answer says that a call did not get to its end.
func cutOff(answer string) bool {
	return strings.Contains(answer, "was restarted while this call ran") || strings.Contains(answer, "nobody approved this call in time")
}
