package cli

import (
	"fmt"
	"slices"
	"strings"
)

// values are the values of the placeholders in one run.
type values struct {
	prompt, session, workspace, state, auth, responseFile string
}

// placeholders are the names that are replaced. Other braces are left alone, as in JSON.
func placeholders() []string {
	return []string{"{prompt}", "{session}", "{workspace}", "{state}", "{auth}", "{response_file}"}
}

// fill replaces the placeholders of a word; it does not replace any in the values.
func (v values) fill(word string) string {
	return strings.NewReplacer(
		"{prompt}", v.prompt, "{session}", v.session, "{workspace}", v.workspace, "{state}", v.state, "{auth}", v.auth,
		"{response_file}", v.responseFile,
	).Replace(word)
}

// argv fills in a whole argument vector. A prompt that is a separate argument and begins with a dash gets a space before it, so that a
// message cannot be an option of the program.
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
			if closed && plain(name) && !slices.Contains(placeholders(), "{"+name+"}") {
				return fmt.Errorf("{%s} is not a placeholder: these are %s", name, strings.Join(placeholders(), " "))
			}
			rest = after
		}
	}
	return nil
}

// plain reports whether text between braces looks like a name.
func plain(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// quote quotes words for a shell.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
