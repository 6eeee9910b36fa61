package telegramtest

import (
	"fmt"
	"html"
	"strings"
)

// tags are those that parse_mode HTML knows.
func known(tag string) bool {
	switch tag {
	case "b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "span", "tg-spoiler", "a", "code", "pre", "blockquote", "tg-emoji":
		return true
	}
	return false
}

// parseHTML parses text in parse_mode HTML and returns the visible text, or the server's error message.
func parseHTML(text string) (plain string, err error) {
	var out strings.Builder
	var open []string
	for at := 0; at < len(text); {
		if text[at] != '<' {
			end := strings.IndexByte(text[at:], '<')
			if end < 0 {
				end = len(text) - at
			}
			out.WriteString(html.UnescapeString(text[at : at+end]))
			at += end
			continue
		}
		end := strings.IndexByte(text[at:], '>')
		if end < 0 {
			return "", fmt.Errorf("can't parse entities: Unclosed start tag at byte offset %d", at)
		}
		if open, err = nest(open, text[at+1:at+end], at); err != nil {
			return "", err
		}
		at += end + 1
	}
	if len(open) > 0 {
		return "", fmt.Errorf("can't parse entities: Can't find end tag corresponding to start tag \"%s\"", open[len(open)-1])
	}
	return out.String(), nil
}

// nest takes one tag, without its brackets.
func nest(open []string, tag string, at int) ([]string, error) {
	if name, ok := strings.CutPrefix(tag, "/"); ok {
		name = strings.ToLower(strings.TrimSpace(name))
		if len(open) == 0 {
			return nil, fmt.Errorf("can't parse entities: Unexpected end tag at byte offset %d", at)
		}
		if last := open[len(open)-1]; name != "" && name != last {
			return nil, fmt.Errorf("can't parse entities: Unmatched end tag at byte offset %d, expected \"</%s>\", found \"</%s>\"", at, last, name)
		}
		return open[:len(open)-1], nil
	}
	name, _, _ := strings.Cut(strings.ToLower(tag), " ")
	if !known(name) {
		return nil, fmt.Errorf("can't parse entities: Unsupported start tag \"%s\" at byte offset %d", name, at)
	}
	return append(open, name), nil
}
