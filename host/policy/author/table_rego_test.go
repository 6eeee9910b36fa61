package author

import (
	"slices"
	"strings"
)

// asRegoSeesThem is the table for a language that is handed one document: every fact is there, an absent one empty, so that nobody can ask
// whether one is; and its text is the whole one, however long.
func asRegoSeesThem(cases []Case) []Case {
	cases = slices.DeleteFunc(cases, func(c Case) bool {
		return strings.HasPrefix(c.Ask.Text, "has ") || strings.Contains(string(c.Args), `"ask":"has `)
	})
	for i := range cases {
		if c := &cases[i]; c.File == "long" && strings.HasPrefix(c.Name, "text of ") {
			whole := inAnswer(c.Ask.Text)
			c.Want.Reason = &whole
		}
	}
	return cases
}
