package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// A note keeps the labels of the session that wrote it and gives them to every session that reads it, so that text of an
// untrusted page, or of a guest, stays marked.
//
// A note is about the person who speaks, or shared by all who talk to the agent. Notes about a person are shown in private
// conversations with that person only, since the members of a group could read them in its transcript.

// Scopes of notes, as models name them.
const (
	scopePerson = "person"
	scopeShared = "shared"
)

// notes is the store with the bound of the configuration in force.
type notes struct {
	memory.Notes
	max func() int
}

// scopeSchema is the property of all these tools.
const scopeSchema = `"scope":{"type":"string","enum":["person","shared"],"description":"person: about who is speaking, shown to them alone; shared: for everybody who talks to you. In a private conversation person if left out, else shared"}`

// scope is the person whose notes a call is about, or memory.Own.
func scope(call tool.Call, name string) string {
	if name == scopePerson || name == "" && call.Private {
		return string(call.Sender)
	}
	return memory.Own
}

// scopes are those that a call may be shown.
func scopes(call tool.Call, name string) []string {
	switch {
	case name == scopeShared || !call.Private:
		return []string{memory.Own}
	case name == scopePerson:
		return persons(call)
	}
	return append(persons(call), memory.Own)
}

// persons are the sender's ids.
func persons(call tool.Call) []string {
	if len(call.Persons) == 0 {
		return []string{string(call.Sender)}
	}
	return memory.Scopes(call.Persons)
}

const notHere = "notes about a person are shown in a private conversation with that person alone"

type noteArgs struct {
	Key   string `json:"key"`
	Text  string `json:"text"`
	Scope string `json:"scope"`
}

func memoryWrite(m notes) tool.Tool {
	return function[noteArgs]{
		spec: tool.Spec{
			Name:        "memory.write",
			Description: "Remember a note under a key, replacing the one that was there.",
			Effect:      tool.Write,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["key","text"],"properties":{
				"key":{"type":"string","minLength":1,"maxLength":128},
				"text":{"type":"string","minLength":1,"maxLength":16384},` + scopeSchema + `}}`),
		},
		run: func(ctx context.Context, call tool.Call, args noteArgs) (tool.Result, error) {
			person := scope(call, args.Scope)
			if why, err := m.othersNote(ctx, call, person, args.Key); why != "" || err != nil {
				return tool.Result{Text: why, IsError: true}, err
			}
			err := m.WriteNote(ctx, memory.Note{
				Agent: call.Agent, Person: person, Key: args.Key, Text: args.Text, By: string(call.Sender), Turn: call.Turn, Labels: call.Labels,
				Updated: time.Now(),
			}, m.max())
			if errors.Is(err, store.ErrNoRoom) {
				return tool.Failure("the memory is full (%d notes); memory.forget makes room", m.max()), nil
			}
			if err != nil {
				return tool.Result{}, fmt.Errorf("write note: %w", err)
			}
			return tool.Result{Text: fmt.Sprintf("remembered under %q", args.Key)}, nil
		},
	}
}

// othersNote returns why the caller may not change a shared note, or "": only its author and owners may.
func (m notes) othersNote(ctx context.Context, call tool.Call, person, key string) (why string, err error) {
	if person != memory.Own || call.Owner {
		return "", nil
	}
	note, err := m.ReadNote(ctx, call.Agent, person, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read note: %w", err)
	case note.By != string(call.Sender):
		return fmt.Sprintf("the shared note %q was written by somebody else; only they or an owner can change it", key), nil
	}
	return "", nil
}

type keyArgs struct {
	Key   string `json:"key"`
	Scope string `json:"scope"`
}

const keySchema = `{"type":"object","additionalProperties":false,"required":["key"],"properties":{
	"key":{"type":"string","minLength":1,"maxLength":128},` + scopeSchema + `}}`

func memoryRead(m notes) tool.Tool {
	return function[keyArgs]{
		spec: tool.Spec{
			Name:        "memory.read",
			Description: "Read the note that was remembered under a key.",
			Effect:      tool.Read,
			Schema:      json.RawMessage(keySchema),
		},
		run: func(ctx context.Context, call tool.Call, args keyArgs) (tool.Result, error) {
			if args.Scope == scopePerson && !call.Private {
				return tool.Failure(notHere), nil
			}
			for _, person := range scopes(call, args.Scope) {
				note, err := m.ReadNote(ctx, call.Agent, person, args.Key)
				if err == nil {
					return tool.Result{Text: note.Text, Labels: note.Labels}, nil
				}
				if !errors.Is(err, store.ErrNotFound) {
					return tool.Result{}, fmt.Errorf("read note: %w", err)
				}
			}
			return tool.Failure("nothing is remembered under %q; memory.search finds notes by their words", args.Key), nil
		},
	}
}

func memoryForget(m notes) tool.Tool {
	return function[keyArgs]{
		spec: tool.Spec{
			Name:        "memory.forget",
			Description: "Forget the note that was remembered under a key, for good.",
			Effect:      tool.Write,
			Schema:      json.RawMessage(keySchema),
		},
		run: func(ctx context.Context, call tool.Call, args keyArgs) (tool.Result, error) {
			person := scope(call, args.Scope)
			if why, err := m.othersNote(ctx, call, person, args.Key); why != "" || err != nil {
				return tool.Result{Text: why, IsError: true}, err
			}
			from := []string{person}
			if person != memory.Own {
				from = persons(call)
			}
			gone, err := m.ForgetNotes(ctx, memory.NoteQuery{Agent: call.Agent, Persons: from, Key: args.Key})
			if err != nil {
				return tool.Result{}, fmt.Errorf("forget note: %w", err)
			}
			if len(gone) == 0 {
				return tool.Failure("nothing is remembered under %q", args.Key), nil
			}
			return tool.Result{Text: fmt.Sprintf("forgot %q", args.Key)}, nil
		},
	}
}

type searchArgs struct {
	Query string `json:"query"`
	Limit int    `json:"limit"`
	Scope string `json:"scope"`
}

// foundText bounds the shown text of one found note, in runes.
const foundText = 500

func memorySearch(m notes) tool.Tool {
	return function[searchArgs]{
		spec: tool.Spec{
			Name:        "memory.search",
			Description: "Find remembered notes by their words.",
			Effect:      tool.Read,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["query"],"properties":{
				"query":{"type":"string","minLength":1,"maxLength":1000},
				"limit":{"type":"integer","minimum":1,"maximum":50,"description":"10 if left out"},` + scopeSchema + `}}`),
		},
		rest: "Search for fewer notes, or read one with memory.read.",
		run: func(ctx context.Context, call tool.Call, args searchArgs) (tool.Result, error) {
			if args.Scope == scopePerson && !call.Private {
				return tool.Failure(notHere), nil
			}
			if args.Limit == 0 {
				args.Limit = 10
			}
			notes, err := m.SearchNotes(ctx, memory.NoteQuery{Agent: call.Agent, Persons: scopes(call, args.Scope), Words: args.Query, Limit: args.Limit})
			if err != nil {
				return tool.Result{}, fmt.Errorf("search notes: %w", err)
			}
			return found(notes), nil
		},
	}
}

func found(notes []memory.Note) tool.Result {
	if len(notes) == 0 {
		return tool.Result{Text: "no note matches"}
	}
	var result tool.Result
	var lines []string
	for _, n := range notes {
		text := []rune(n.Text)
		if len(text) > foundText {
			text = append(text[:foundText], []rune("...")...)
		}
		where := ""
		if n.Person == memory.Own {
			where = " (shared)"
		}
		lines = append(lines, fmt.Sprintf("%s%s: %s", n.Key, where, string(text)))
		result.Labels = append(result.Labels, n.Labels...)
	}
	result.Text = strings.Join(lines, "\n")
	return result
}
