package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// secretValue is a key that looks like that of a secret, with its value, anywhere in a text: in a comment and in a file that is not TOML too.
// A value is a text of any of the four forms, or whatever follows unless it is a number, a boolean, a list or a table.
var secretValue = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?is)((?:token|password|passwd|secret|api_key|apikey|private_key)["']?[ \t]*=[ \t]*)` +
		`("""(?:.*?)"""|'''(?:.*?)'''|"(?:\\[^\n]|[^"\\\n])*"?|'[^'\n]*'?|[^\s"'\[{#][^\n#]*)`)
})

// plainValue is a value that is no secret.
var plainValue = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:true|false|[+-]?[0-9][0-9_.]*)\s*$`) })

// login is a user name with a password in an address.
var login = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(://)([^/\s"'@:]*:[^/\s"'@]+)(@)`) })

// mark is what stands for something hidden.
var mark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<hidden ?([0-9]{0,6})>`) })

// HasMark reports whether a text has a mark of something hidden, which is no value.
func HasMark(text string) bool { return mark().MatchString(text) }

func hiddenMark(number string) string {
	if number != "" {
		number = " " + number
	}
	return "<hidden" + number + ">"
}

// hideLogins replaces user names and passwords in addresses.
func hideLogins(text string) string {
	return login().ReplaceAllString(text, "${1}"+hiddenMark("")+"${3}")
}

// Hide returns a text of flynn.toml in which nothing that looks like a secret is left, and what it left out. Secrets never stand in a file
// that is in force; but people write them into comments, addresses, and files that are refused.
func Hide(text string) (shown string, hidden []string) {
	hide := func(secret string) string {
		hidden = append(hidden, secret)
		return hiddenMark(strconv.Itoa(len(hidden)))
	}
	shown = secretValue().ReplaceAllStringFunc(text, func(found string) string {
		m := secretValue().FindStringSubmatch(found)
		before, value := m[1], m[2]
		quote := ""
		for _, q := range []string{`"""`, `'''`, `"`, `'`} {
			if strings.HasPrefix(value, q) {
				quote = q
				break
			}
		}
		if quote == "" && plainValue().MatchString(value) {
			return found
		}
		inside := strings.TrimPrefix(value, quote)
		inside, closed := strings.CutSuffix(inside, quote)
		after := ""
		if quote == "" {
			inside = strings.TrimRight(value, " \t\r")
			after = value[len(inside):]
		} else if closed {
			after = quote
		}
		if inside == "" {
			return found
		}
		return before + quote + hide(inside) + after
	})
	shown = login().ReplaceAllStringFunc(shown, func(found string) string {
		m := login().FindStringSubmatch(found)
		return m[1] + hide(m[2]) + m[3]
	})
	return shown, hidden
}

// ErrHidden is the error of an edit that moves what is hidden to a place where it would be shown.
var ErrHidden = errors.New("a <hidden> mark stands where nothing was hidden: marks may be removed or replaced, and not written or moved")

// Unhide puts what Hide left out of a text back into an edit of it. A mark may only stand where its secret would be hidden again.
func Unhide(edited, original string) (string, error) {
	_, hidden := Hide(original)
	var wrong error
	out := mark().ReplaceAllStringFunc(edited, func(found string) string {
		n, err := strconv.Atoi(mark().FindStringSubmatch(found)[1])
		if err != nil || n < 1 || n > len(hidden) {
			wrong = fmt.Errorf("%w: %s", ErrHidden, found)
			return found
		}
		return hidden[n-1]
	})
	if wrong != nil && len(hidden) > 0 {
		return "", wrong
	}
	if len(hidden) == 0 {
		return edited, nil // marks of a text without secrets are ordinary text
	}
	again, _ := Hide(out)
	before, _ := Hide(edited)
	if unnumbered(again) != unnumbered(before) {
		return "", ErrHidden
	}
	return out, nil
}

func unnumbered(text string) string { return mark().ReplaceAllString(text, hiddenMark("")) }
