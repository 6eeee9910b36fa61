package tui

import (
	"strings"
)

const (
	// longTail and wideTail bound what of a streaming answer stays live, in lines and bytes, even if it has no good place to cut.
	longTail = 60
	wideTail = 16 << 10
)

// stream is an answer that is being written. Its beginning goes to the scrollback as soon as nothing that follows can change how it looks.
type stream struct {
	text string // so far
	done string // the beginning that is in the scrollback
	open string // what makes the rest of a cut block read as part of it: the opening of a fence, the head of a table
}

// rest is what is not in the scrollback yet. Another answer than the one that is there has its rest from the beginning, and is told by again.
func (s *stream) rest(text string) (rest string, again bool) {
	if rest, ok := strings.CutPrefix(text, s.done); ok {
		return s.open + rest, false
	}
	return text, true
}

// live is what the live part shows: nothing while an answer that began again repeats what is there.
func (s *stream) live() string {
	if s.text == "" || strings.HasPrefix(s.done, s.text) {
		return ""
	}
	rest, _ := s.rest(s.text)
	return rest
}

// advance returns what is finished of the stream, as Markdown, and moves it to done. joined means that it continues the block before.
func (s *stream) advance() (finished string, joined, again bool) {
	if s.text == "" || strings.HasPrefix(s.done, s.text) {
		return "", false, false
	}
	if _, again = s.rest(s.text); again {
		s.done, s.open = "", ""
	}
	joined = s.open != ""
	rest := s.text[len(s.done):]
	at, open := cut(s.open+rest, len(s.open))
	if at == 0 {
		return "", false, again
	}
	finished = s.open + rest[:at]
	s.done, s.open = s.done+rest[:at], open
	return finished, joined, again
}

// settle returns what is left of the whole text, and forgets the stream.
func (s *stream) settle(text string) (rest string, joined, again bool) {
	joined = s.open != ""
	rest, again = s.rest(text)
	if rest == s.open {
		rest = ""
	}
	*s = stream{}
	return rest, joined && !again, again
}

// cut finds how much of a source, whose first bytes are repeated from before, is finished, and what must be repeated before its rest.
func cut(source string, repeated int) (at int, open string) {
	fence, table := "", ""
	lines, good, last := 0, 0, 0
	before, heads := "", 0
	for start := 0; ; {
		end := strings.IndexByte(source[start:], '\n')
		if end < 0 {
			break
		}
		line := source[start : start+end]
		next := start + end + 1
		was := fence
		fence = fenced(fence, line)
		if strings.Count(line, "|") > 0 && fence == "" {
			if heads++; heads == 2 && strings.Trim(line, " |:-") == "" {
				table = before + "\n" + line + "\n"
			}
		} else {
			heads, table = 0, ""
		}
		blank := strings.TrimSpace(line) == ""
		if fence == "" && (blank || was != "") && next < len(source) && !strings.ContainsRune(" \t\n\r", rune(source[next])) && next > repeated {
			good = next
		}
		if lines++; next > repeated {
			last, open = next, fence+table
			if fence != "" {
				open = fence + "\n"
			}
		}
		before, start = line, next
	}
	if good > 0 {
		return good - repeated, ""
	}
	if lines > longTail && last > repeated {
		return last - repeated, open
	}
	if len(source) > wideTail && fence == "" {
		if at := strings.LastIndexByte(source, ' '); at > repeated {
			return at - repeated, ""
		}
	}
	return 0, ""
}

// fenced returns the opening line of the fence that is open after a line; "" for none.
func fenced(open, line string) string {
	text := strings.TrimLeft(line, " ")
	if len(line)-len(text) > 3 || text == "" || text[0] != '`' && text[0] != '~' {
		return open
	}
	marks := len(text) - len(strings.TrimLeft(text, text[:1]))
	if marks < 3 {
		return open
	}
	info := text[marks:]
	if open == "" {
		if text[0] == '`' && strings.Contains(info, "`") {
			return ""
		}
		return text
	}
	need := len(open) - len(strings.TrimLeft(open, open[:1]))
	if open[0] == text[0] && marks >= need && strings.TrimSpace(info) == "" {
		return ""
	}
	return open
}
