// Package demo is a provider without a model: deterministic, offline, free. The first run of Flynn
// needs no key with it, and tests need no network.
//
// Start with New. The answer depends only on the last message of the request:
//
//	!sh CMD             calls the tool shell.exec with {"command": CMD}
//	!tool NAME JSON     calls the tool NAME with the arguments JSON, which are not checked; {} when left out
//	!py PROGRAM         writes the program: calls the tool code.run, or where it is not offered answers with a block of code
//	!js PROGRAM         the same in JavaScript
//	!slow MS TEXT       waits MS milliseconds, then answers TEXT by these same rules
//	!stream MS TEXT     answers TEXT by these same rules, with MS milliseconds after each word
//	!fail               fails with a temporary error, as an overloaded provider does
//	!fail KIND          fails with an error of that model.Kind
//	anything else       "You said: ..."
//
// Several lines that all begin with !sh or !tool become parallel calls. After tool results the answer is their text. The
// names of speakers at the beginning of a group's messages ("<ann> hello") are ignored. Answers stream word by word,
// without delay. The provider reads neither the system prompt nor the history.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/sdk/backoff"
)

// Name of the provider in flynn.toml.
const Name = "demo"

// Provider answers by the rules of the package comment.
type Provider struct{}

var _ model.Provider = Provider{}

// New makes a demo provider. It has nothing to configure.
func New(config.Model) (model.Provider, error) { return Provider{}, nil }

// Stream answers the last message.
func (Provider) Stream(ctx context.Context, req model.Request, emit func(model.Delta)) (model.Response, error) {
	if err := ctx.Err(); err != nil {
		return model.Response{}, err
	}
	answer, err := reply(ctx, req)
	if err != nil {
		return model.Response{}, err
	}
	pace := pace(req)
	for word := range strings.SplitAfterSeq(answer.Text, " ") {
		if word == "" {
			continue
		}
		emit(model.Delta{Text: word})
		if pace > 0 && backoff.Sleep(ctx, pace) != nil {
			return model.Response{}, waitError(ctx, req)
		}
	}
	return model.Response{Message: answer, Stop: stop(answer), Usage: usage(req, answer)}, nil
}

func reply(ctx context.Context, req model.Request) (model.Message, error) {
	if len(req.Messages) == 0 {
		return say("You said nothing."), nil
	}
	last := req.Messages[len(req.Messages)-1]
	if len(last.Results) > 0 {
		return say(resultText(last.Results)), nil
	}
	return obey(ctx, req, strings.TrimSpace(withoutSpeakers(last.Text)))
}

// speaker matches the mark of each message of a group: "<ann> hello", or "<Ann 4711> hello" where names are not ids. It does not match a
// tag with an attribute, such as <img src=x>.
var speaker = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^<[^<>\n="'/]{1,128}> `) })

func withoutSpeakers(text string) string { return speaker().ReplaceAllString(text, "") }

func obey(ctx context.Context, req model.Request, text string) (model.Message, error) {
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "!stream":
		if pace, rest := streamed(rest); pace > 0 {
			return obey(ctx, req, rest)
		}
	case "!slow":
		return slow(ctx, req, strings.TrimSpace(rest))
	case "!fail":
		return model.Message{}, fail(req, strings.TrimSpace(rest))
	}
	if language, program, ok := parseProgram(text); ok {
		return write(req, language, program)
	}
	if calls := parseCalls(text, priorCalls(req)); len(calls) > 0 {
		return model.Message{Role: model.Assistant, Calls: calls}, nil
	}
	return say("You said: " + text), nil
}

func say(text string) model.Message { return model.Message{Role: model.Assistant, Text: text} }

func resultText(results []model.ToolResult) string {
	texts := make([]string, 0, len(results))
	for _, r := range results {
		if r.Text != "" {
			texts = append(texts, r.Text)
		}
	}
	if len(texts) == 0 {
		return "(the tool had no output)"
	}
	return strings.Join(texts, "\n")
}

func slow(ctx context.Context, req model.Request, args string) (model.Message, error) {
	number, rest, _ := strings.Cut(args, " ")
	ms, err := strconv.Atoi(number)
	if err != nil || ms < 0 {
		return say("!slow needs a number of milliseconds, such as !slow 500 hello"), nil
	}
	if backoff.Sleep(ctx, time.Duration(ms)*time.Millisecond) != nil {
		return model.Message{}, waitError(ctx, req)
	}
	if rest = strings.TrimSpace(rest); rest != "" {
		return obey(ctx, req, rest)
	}
	return say(fmt.Sprintf("I waited %d ms.", ms)), nil
}

// pace is the pause after each word of the answer; !stream asks for one.
func pace(req model.Request) time.Duration {
	if len(req.Messages) == 0 {
		return 0
	}
	text, ok := strings.CutPrefix(strings.TrimSpace(withoutSpeakers(req.Messages[len(req.Messages)-1].Text)), "!stream ")
	if !ok {
		return 0
	}
	d, _ := streamed(text)
	return d
}

// streamed reads the arguments of !stream.
func streamed(args string) (pace time.Duration, rest string) {
	number, rest, _ := strings.Cut(strings.TrimSpace(args), " ")
	ms, err := strconv.Atoi(number)
	if err != nil || ms <= 0 || ms > 60_000 {
		return 0, args
	}
	return time.Duration(ms) * time.Millisecond, strings.TrimSpace(rest)
}

func waitError(ctx context.Context, req model.Request) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &model.Error{Kind: model.Timeout, Provider: Name, Model: req.Model, Err: ctx.Err()}
	}
	return context.Cause(ctx)
}

func fail(req model.Request, kind string) error {
	if kind == "" {
		kind = string(model.Overloaded)
	}
	return &model.Error{Kind: model.Kind(kind), Provider: Name, Model: req.Model, Err: errors.New("failed as asked")}
}

// parseCalls reads calls, one a line; any other line makes the whole text an ordinary one. prior is
// the number of earlier calls, so that ids are unique in a transcript and still deterministic.
func parseCalls(text string, prior int) []model.ToolCall {
	var calls []model.ToolCall
	for line := range strings.Lines(text) {
		name, args, ok := parseCall(strings.TrimSpace(line))
		if !ok {
			return nil
		}
		prior++
		calls = append(calls, model.ToolCall{ID: fmt.Sprintf("demo_%d", prior), Name: name, Args: args})
	}
	return calls
}

func parseCall(line string) (name string, args json.RawMessage, ok bool) {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	if rest == "" {
		return "", nil, false
	}
	switch word {
	case "!sh":
		args, err := json.Marshal(map[string]string{"command": rest})
		return "shell.exec", args, err == nil
	case "!tool":
		name, written, _ := strings.Cut(rest, " ")
		if written = strings.TrimSpace(written); written == "" {
			written = "{}"
		}
		return name, json.RawMessage(written), true
	}
	return "", nil, false
}

func priorCalls(req model.Request) int {
	n := 0
	for _, m := range req.Messages {
		n += len(m.Calls)
	}
	return n
}

func stop(m model.Message) model.Stop {
	if len(m.Calls) > 0 {
		return model.StopToolCalls
	}
	return model.StopEnd
}

// recentMessages is how many messages have their words counted; the length of older ones is only estimated, to save time.
const recentMessages = 32

// guessed estimates the number of words of a text.
func guessed(text string) int { return (len(text) + 5) / 6 }

// usage counts words as tokens, which is close enough to try budgets.
func usage(req model.Request, answer model.Message) model.Usage {
	input := words(req.System)
	for i, m := range req.Messages {
		count := words
		if len(req.Messages)-i > recentMessages {
			count = guessed
		}
		input += count(m.Text)
		for _, r := range m.Results {
			input += count(r.Text)
		}
	}
	output := words(answer.Text)
	for _, c := range answer.Calls {
		output += words(string(c.Args))
	}
	return model.Usage{Input: input, Output: output}
}

func words(s string) int {
	n := 0
	for range strings.FieldsSeq(s) {
		n++
	}
	return n
}
