package session

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
)

// Target is a store that sessions are imported into.
type Target interface {
	PutSession(ctx context.Context, s turnlog.Session, turns []turnlog.SessionTurn, sum *turnlog.Summary) error
}

// Import reads a file and writes its session under the same key, completely or not at all. It returns store.ErrConflict if the session
// exists. The file is not trusted: Import refuses anything that does not have the form of an export, and labels all of it
// tool.Imported.
func Import(ctx context.Context, to Target, r io.Reader) (turnlog.Session, error) {
	f, err := Read(r)
	if err != nil {
		return f.Session, err
	}
	return f.Session, to.PutSession(ctx, f.Session, f.Turns, f.Summary)
}

// File is the content of a file.
type File struct {
	Session turnlog.Session
	Turns   []turnlog.SessionTurn
	Summary *turnlog.Summary // nil if there is none
}

// Read parses a file. Its errors name the line.
func Read(r io.Reader) (File, error) {
	p := &parser{lines: bufio.NewScanner(io.LimitReader(r, maxBytes)), latest: store.LeastID(time.Now().Add(maxAhead))}
	p.lines.Buffer(nil, maxLine)
	if err := p.parse(); err != nil {
		return File{}, fmt.Errorf("line %d: %w", p.number, err)
	}
	return File{p.session, p.turns, p.summary}, nil
}

// maxAhead is how far the exporting host's clock may be ahead. Later messages must sort behind everything in the file.
const maxAhead = 24 * time.Hour

type parser struct {
	lines   *bufio.Scanner
	number  int
	session turnlog.Session
	turns   []turnlog.SessionTurn
	summary *turnlog.Summary
	latest  string // upper bound for the ids in the file
	steps   int    // of the complete turns
	all     int    // of all turns so far
}

// next reads a line into v, strictly.
func (p *parser) next(v any) error {
	p.number++
	if !p.lines.Scan() {
		if err := p.lines.Err(); err != nil {
			return err
		}
		return errors.New("unexpected end of file")
	}
	text := p.lines.Bytes()
	if !utf8.Valid(text) {
		return errors.New("not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the value")
	}
	return nil
}

func (p *parser) parse() error {
	var h header
	if err := p.next(&h); err != nil {
		return err
	}
	if h.Version < oldest || h.Version > Version {
		return fmt.Errorf("unknown format version %d (known: %d to %d)", h.Version, oldest, Version)
	}
	k := h.Key.Parse()
	if k.Scope == "" || k.Agent == "" || k.Agent != h.Agent || len(h.Key) > 4*maxID || k.Key() != h.Key || !plain(string(h.Key)) {
		return fmt.Errorf("%q is not a session key of agent %q", h.Key, h.Agent)
	}
	p.session = turnlog.Session{Key: h.Key, Agent: h.Agent}
	for {
		var l line
		if err := p.next(&l); err != nil {
			return err
		}
		done, err := p.take(l)
		if err != nil || done {
			return err
		}
	}
}

// take adds a line; done is true for the last one.
func (p *parser) take(l line) (done bool, err error) {
	kinds := 0
	for _, set := range []bool{l.Turn != nil, l.Step != nil, l.Summary != nil, l.End != nil} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return false, errors.New(`not a "turn", a "step", a "summary" or the "end"`)
	case p.summary != nil && l.End == nil:
		return false, errors.New("data between the summary and the end")
	case l.Turn != nil:
		if err := p.closeTurn(); err != nil {
			return false, err
		}
		return false, p.openTurn(*l.Turn)
	case l.Step != nil:
		return false, p.step(*l.Step)
	case l.Summary != nil:
		return false, p.sum(*l.Summary)
	}
	return true, p.end(*l.End)
}

// sum takes the summary of the first turns.
func (p *parser) sum(l summaryLine) error {
	i := slices.IndexFunc(p.turns, func(t turnlog.SessionTurn) bool { return t.Turn.ID == l.Through })
	switch {
	case i < 0:
		return errors.New("the summary covers turns that are missing")
	case l.Turns < 1 || l.Turns > i+1:
		return fmt.Errorf("the summary covers %d of %d turns", l.Turns, i+1)
	case !p.known(l.ID) || l.ID <= l.Through:
		return errors.New("the summary has an invalid name")
	case strings.TrimSpace(l.Text) == "" || len(l.Text) > maxText || !sane(l.At):
		return errors.New("the summary has an invalid text or time")
	}
	p.summary = &turnlog.Summary{
		ID: l.ID, Session: p.session.Key, Through: l.Through, Turns: l.Turns, Text: l.Text, Labels: transcript.ImportedLabels(l.Labels), At: l.At.UTC(),
	}
	return nil
}

// known reports whether a text is an id that a Flynn host has given.
func (p *parser) known(id string) bool { return store.IsID(id) && id < p.latest }

func (p *parser) openTurn(l turnLine) error {
	t := turnlog.Turn{
		ID: l.ID, Session: p.session.Key, Agent: p.session.Agent, Channel: l.Channel, Conversation: l.Conversation, Sender: l.Sender,
		State: l.State, Error: l.Error, Started: l.Started.UTC(), Ended: l.Ended.UTC(),
	}
	switch {
	case len(p.turns) == maxTurns:
		return fmt.Errorf("more than %d turns", maxTurns)
	case !p.known(l.ID) || !plain(l.Channel) || !plain(l.Conversation.ID) || !plain(string(l.Sender)) || strings.Contains(l.Channel, ":"):
		return errors.New("the turn has an invalid name")
	case l.Conversation.Parent != "" && !plain(l.Conversation.Parent):
		return errors.New("the conversation has an invalid name")
	case l.Conversation.Kind != message.DM && l.Conversation.Kind != message.Group && l.Conversation.Kind != message.Thread:
		return fmt.Errorf("unknown kind of conversation %q", l.Conversation.Kind)
	case !ofChannel(l.Sender, l.Channel):
		return fmt.Errorf("the sender %q does not belong to channel %q", l.Sender, l.Channel)
	case len(p.turns) > 0 && l.ID <= p.turns[len(p.turns)-1].Turn.ID:
		return errors.New("the turns are out of order")
	case !sane(l.Started) || !sane(l.Ended):
		return errors.New("the turn has an invalid time")
	case len(l.Error) > maxLine || !utf8.ValidString(l.Error):
		return errors.New("the error is not valid text")
	}
	p.turns = append(p.turns, turnlog.SessionTurn{Turn: t})
	return nil
}

func (p *parser) step(l stepLine) error {
	if len(p.turns) == 0 {
		return errors.New("a step without a turn")
	}
	if p.all++; p.all > maxSteps {
		return fmt.Errorf("more than %d steps", maxSteps)
	}
	if !sane(l.At) {
		return errors.New("the step has an invalid time")
	}
	t := &p.turns[len(p.turns)-1]
	t.Steps = append(t.Steps, turnlog.Step{Turn: t.Turn.ID, Seq: len(t.Steps), Kind: l.Kind, Data: l.Data, At: l.At.UTC()})
	return nil
}

// closeTurn checks the last turn once all of its steps are read, and labels it.
func (p *parser) closeTurn() error {
	if len(p.turns) == 0 {
		return nil
	}
	t := &p.turns[len(p.turns)-1]
	p.steps += len(t.Steps)
	p.session.Turns, p.session.Last = len(p.turns), t.Turn.Started
	if err := transcript.Check(t.Turn, t.Steps); err != nil {
		return err
	}
	steps, err := transcript.Imported(t.Steps)
	t.Steps = steps
	return err
}

func (p *parser) end(l endLine) error {
	if err := p.closeTurn(); err != nil {
		return err
	}
	if l.Turns != len(p.turns) || l.Steps != p.steps {
		return fmt.Errorf("the file has %d turns and %d steps, but its end counts %d and %d", len(p.turns), p.steps, l.Turns, l.Steps)
	}
	if p.lines.Scan() {
		p.number++
		return errors.New("data after the end")
	}
	p.rekey()
	return p.lines.Err()
}

// ofChannel reports whether a sender key belongs to a channel instance.
func ofChannel(sender message.SenderKey, channel string) bool {
	instance, _, ok := sender.Cut()
	return ok && instance == channel
}

// rekey changes the key of a private session of an older version, which had the form of a group's key, to its present form.
func (p *parser) rekey() {
	i := slices.IndexFunc(p.turns, func(t turnlog.SessionTurn) bool { return t.Turn.Conversation.Kind == message.DM })
	if i < 0 || config.BuiltinChannel(p.turns[i].Turn.Channel) {
		return
	}
	t := p.turns[i].Turn
	k := p.session.Key.Parse()
	if k.Scope != string(t.ConversationKey()) {
		return
	}
	k.Scope = message.ChatScope(t.ConversationKey())
	if t.Sender == message.NewSenderKey(t.Channel, t.Conversation.ID) {
		k.Scope = message.SenderScope(t.Sender)
	}
	p.session.Key = k.Key()
	for i := range p.turns {
		p.turns[i].Turn.Session = p.session.Key
	}
	if p.summary != nil {
		p.summary.Session = p.session.Key
	}
}

// plain reports whether a text can be a name.
func plain(name string) bool {
	return name != "" && len(name) <= 4*maxID && utf8.ValidString(name) && !strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// sane reports whether a time can be stored in nanoseconds.
func sane(t time.Time) bool { return t.IsZero() || t.Year() >= 1970 && t.Year() < 2200 }
