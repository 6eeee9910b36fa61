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

// EffectOf compares two answers in the words of records. Whatever drops any restriction is looser, even if it adds another,
// and so is to answer what was dropped. What it cannot read is looser: it is for gates.
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
		// A sandbox that a policy leaves to the session is no less than a named one, nor more.
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

// unanswered tells of a route to nobody; the second word is of a chain whose policies leave it to a table that has none.
func unanswered(answer string) bool { return answer == "drop" || answer == "nobody" }

// restrictions are the words of a tool answer, nil when it is none.
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
