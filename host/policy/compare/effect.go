package compare

import "strings"

// Effect says in which direction a changed answer goes.
type Effect string

// The directions.
const (
	Looser   Effect = "looser"   // something may happen that did not before
	Stricter Effect = "stricter" // something is restricted that was not before
	Other    Effect = "other"    // neither, such as another agent
)

// EffectOf compares two answers as records have them. An answer that drops any restriction is looser, even if it adds another,
// and so is a route to an agent where there was none. An answer that cannot be read counts as looser, because gates rely on it.
func EffectOf(kind, was, is string) Effect {
	if kind == "route" {
		return routeEffect(was, is)
	}
	before, after := restrictions(was), restrictions(is)
	switch {
	case was == is:
		return Other
	case before == nil || after == nil:
		return Looser
	case after["deny"]:
		return Stricter // what is denied needs no further restriction
	case before["deny"]:
		return Looser
	}
	for word := range before {
		// The session's own sandbox is neither more nor less than a named one.
		if !after[word] {
			return Looser
		}
	}
	return Stricter
}

func routeEffect(was, is string) Effect {
	switch before, after := unanswered(was), unanswered(is); {
	case before && !after:
		return Looser
	case after && !before:
		return Stricter
	}
	return Other
}

// unanswered reports whether nobody answers: "nobody" is the answer of a chain that abstains where the table has no agent.
func unanswered(answer string) bool { return answer == "drop" || answer == "nobody" }

// restrictions returns the words of a tool answer, nil if it is not one.
func restrictions(answer string) map[string]bool {
	words := map[string]bool{}
	if answer == "none" {
		return words
	}
	for _, word := range strings.Split(answer, ", ") {
		if word != "deny" && word != "ask" && word != "sandbox" && !strings.HasPrefix(word, "sandbox ") {
			return nil
		}
		words[word] = true
	}
	return words
}
