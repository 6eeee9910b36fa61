package cli

import (
	"fmt"
	"strings"
)

// values are what placeholders stand for in one run.
type values struct {
	prompt, session, workspace, state, auth, responseFile string
}

// placeholders are the names that may stand in braces. Other braces stand for themselves: JSON is full of them.
func placeholders() []string {
	return []string{"{prompt}", "{session}", "{workspace}", "{state}", "{auth}", "{response_file}"}
}

// fill replaces the placeholders of a word, once: what a value contains is not looked through again.
func (v values) fill(word string) string {
	return strings.NewReplacer(
		"{prompt}", v.prompt, "{session}", v.session, "{workspace}", v.workspace, "{state}", v.state, "{auth}", v.auth,
		"{response_file}", v.responseFile,
	).Replace(word)
}

// argv fills in a whole argument vector. A prompt that is an argument of its own and begins with a dash gets a space before it, so that
// nobody can write an option to the program.
func (v values) argv(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = v.fill(w)
		if w == "{prompt}" && strings.HasPrefix(out[i], "-") {
			out[i] = " " + out[i]
		}
	}
	return out
}

// checkWords finds placeholders that are misspelt.
func checkWords(words []string) error {
	for _, w := range words {
		if strings.ContainsRune(w, 0) {
			return fmt.Errorf("the word %q has a zero byte", w)
		}
		for rest := w; ; {
			_, after, ok := strings.Cut(rest, "{")
			if !ok {
				break
			}
			name, _, closed := strings.Cut(after, "}")
			if closed && plain(name) && !known("{"+name+"}") {
				return fmt.Errorf("{%s} is no placeholder: these are %s", name, strings.Join(placeholders(), " "))
			}
			rest = after
		}
	}
	return nil
}

// plain says whether text between braces is meant as a name.
func plain(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz_") == ""
}

func known(placeholder string) bool {
	for _, p := range placeholders() {
		if p == placeholder {
			return true
		}
	}
	return false
}

// quote makes words a shell's, as they are.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
