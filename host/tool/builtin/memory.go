package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// The notes of an agent carry the labels of the session that wrote them, and give them to every session
// that reads them: what came from an untrusted page stays untrusted for as long as it is remembered.

type noteArgs struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

func memoryWrite(m store.Memory) tool.Tool {
	return function[noteArgs]{
		spec: tool.Spec{
			Name:        "memory.write",
			Description: "Remember a note under a key, replacing the one that was there.",
			Effect:      tool.Write,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["key","text"],"properties":{
				"key":{"type":"string","minLength":1,"maxLength":128},
				"text":{"type":"string","minLength":1,"maxLength":16384}}}`),
		},
		run: func(ctx context.Context, call tool.Call, args noteArgs) (tool.Result, error) {
			err := m.WriteNote(ctx, store.Note{
				Agent:   call.Agent,
				Key:     args.Key,
				Text:    args.Text,
				By:      call.Sender,
				Labels:  call.Labels,
				Updated: time.Now(),
			})
			if err != nil {
				return tool.Result{}, fmt.Errorf("write note: %w", err)
			}
			return tool.Result{Text: fmt.Sprintf("remembered under %q", args.Key)}, nil
		},
	}
}

type keyArgs struct {
	Key string `json:"key"`
}

func memoryRead(m store.Memory) tool.Tool {
	return function[keyArgs]{
		spec: tool.Spec{
			Name:        "memory.read",
			Description: "Read the note that was remembered under a key.",
			Effect:      tool.Read,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["key"],"properties":{
				"key":{"type":"string","minLength":1,"maxLength":128}}}`),
		},
		run: func(ctx context.Context, call tool.Call, args keyArgs) (tool.Result, error) {
			note, err := m.ReadNote(ctx, call.Agent, args.Key)
			if errors.Is(err, store.ErrNotFound) {
				return failure("nothing is remembered under %q; memory.search finds notes by their words", args.Key), nil
			}
			if err != nil {
				return tool.Result{}, fmt.Errorf("read note: %w", err)
			}
			return tool.Result{Text: note.Text, Labels: note.Labels}, nil
		},
	}
}

type searchArgs struct {
	Query string `json:"query"`
	Limit int    `json:"limit"`
}

// foundText bounds what is shown of one note that was found, in runes.
const foundText = 500

func memorySearch(m store.Memory) tool.Tool {
	return function[searchArgs]{
		spec: tool.Spec{
			Name:        "memory.search",
			Description: "Find remembered notes by their words.",
			Effect:      tool.Read,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["query"],"properties":{
				"query":{"type":"string","minLength":1,"maxLength":1000},
				"limit":{"type":"integer","minimum":1,"maximum":50,"description":"10 if left out"}}}`),
		},
		rest: "Search for fewer notes, or read one with memory.read.",
		run: func(ctx context.Context, call tool.Call, args searchArgs) (tool.Result, error) {
			if args.Limit == 0 {
				args.Limit = 10
			}
			notes, err := m.SearchNotes(ctx, call.Agent, args.Query, args.Limit)
			if err != nil {
				return tool.Result{}, fmt.Errorf("search notes: %w", err)
			}
			return found(notes), nil
		},
	}
}

func found(notes []store.Note) tool.Result {
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
		lines = append(lines, fmt.Sprintf("%s: %s", n.Key, string(text)))
		result.Labels = append(result.Labels, n.Labels...)
	}
	result.Text = strings.Join(lines, "\n")
	return result
}
