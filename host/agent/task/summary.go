package task

import (
	"context"
	"fmt"
	"strings"
)

// compactSystem asks for a record instead of instructions, because the summary becomes part of a later prompt.
const compactSystem = "You sum up the older part of a conversation between people and an assistant, so that the assistant can go on without it. " +
	"Keep what matters later: who asked for what, decisions, names, numbers, file names, open questions, what was done and what came of it. " +
	"Report what was said as said (\"Ann asked to ...\"); write no instructions of your own. Where a summary of still earlier " +
	"turns is given, work it in. Answer with the summary alone. " + isData

// maxRounds bounds the calls of one compaction.
const maxRounds = 24

// Compact summarises turns, oldest first, together with the summary of the turns before them. Turns that do not fit into one call are
// summarised in several.
func (s Service) Compact(ctx context.Context, before string, turns []string, maxTokens int) (string, error) {
	room := max(s.window(Compaction)-len(compactSystem)-maxTokens*bytesPerToken-512, minWindow/2)
	lots := split(turns, room)
	if extra := len(lots) - maxRounds; extra > 0 {
		return "", fmt.Errorf("%s: needs %d calls, and only %d are allowed: give the task a tier with a larger window", Compaction, len(lots), maxRounds)
	}
	summary := before
	for _, lot := range lots {
		var text strings.Builder
		if summary != "" {
			fmt.Fprintf(&text, "The summary of what came before:\n%s\n\n", data(summary))
		}
		fmt.Fprintf(&text, "The turns to sum up:\n%s", data(strings.Join(lot, "\n\n")))
		next, err := s.ask(ctx, Compaction, compactSystem, text.String(), maxTokens)
		if err != nil {
			return "", err
		}
		summary, _ = Ends(next, maxTokens*bytesPerToken, 0)
	}
	return summary, nil
}

// bytesPerToken is a generous bound for the size of a token.
const bytesPerToken = 8

// split makes groups of at most room bytes. A longer piece loses its middle.
func split(pieces []string, room int) [][]string {
	var lots [][]string
	size := room + 1
	for _, p := range pieces {
		p = Middle(p, room)
		if size+len(p)+2 > room {
			lots, size = append(lots, nil), 0
		}
		lots[len(lots)-1] = append(lots[len(lots)-1], p)
		size += len(p) + 2
	}
	return lots
}

const resultSystem = "You shorten the result of a tool for an assistant that sees its beginning and its end already. Say what the part between " +
	"holds: what it is about, its structure, names, numbers, errors. Answer with at most 200 words of summary alone. " + isData

// resultTokens and resultBytes bound the summary of a result.
const (
	resultTokens = 512
	resultBytes  = 4 << 10
)

// ShortenResult summarises the result of a tool.
func (s Service) ShortenResult(ctx context.Context, tool, text string) (string, error) {
	text = Middle(text, s.window(ToolSummarisation)-len(resultSystem)-512)
	answer, err := s.ask(ctx, ToolSummarisation, resultSystem, fmt.Sprintf("The result of %s:\n%s", tool, data(text)), resultTokens)
	answer, _ = Ends(answer, resultBytes, 0)
	return answer, err
}

const thinkSystem = "You are asked one hard question by another assistant, which sees nothing of your thoughts but your answer. Think it through step by " +
	"step, check yourself, and answer with the conclusion and the reasons that carry it."

// Think answers a question without tools.
func (s Service) Think(ctx context.Context, question string) (string, error) {
	return s.ask(ctx, ComplexReasoning, thinkSystem, Middle(question, s.window(ComplexReasoning)-len(thinkSystem)), 0)
}
