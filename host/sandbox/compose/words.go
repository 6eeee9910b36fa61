package compose

import (
	"errors"
	"strings"
)

// split splits a line into words as a shell does, with quotes and backslashes and no other syntax.
func split(line string) ([]string, error) {
	words := []string{}
	var word strings.Builder
	inWord := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\n', '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		case '\'', '"':
			n, err := quoted(line[i:], &word)
			if err != nil {
				return nil, err
			}
			i, inWord = i+n, true
		case '\\':
			if i++; i == len(line) {
				return nil, errors.New("it ends with a backslash")
			}
			word.WriteByte(line[i])
			inWord = true
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// quoted appends the text up to the next quote of the kind that text begins with, and returns that quote's position.
func quoted(text string, word *strings.Builder) (int, error) {
	quote := text[0]
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == quote:
			return i, nil
		case quote == '"' && text[i] == '\\' && i+1 < len(text) && strings.IndexByte("\"\\$`", text[i+1]) >= 0:
			i++
		}
		word.WriteByte(text[i])
	}
	return 0, errors.New("a quote is not closed")
}
