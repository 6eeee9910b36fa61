// Package redact keeps secrets out of logs, errors, answers and streams.
//
// Start with Secret, a value that does not print; Words, for lines of others, such as a plugin's log; and Stream, for
// bytes that go into a sandbox. The package knows no secrets by itself: its users name them.
package redact

import (
	"encoding/json"
	"slices"
	"strings"
)

// Mark replaces a secret.
const Mark = "[redacted]"

// Secret is a value that prints as redacted, in every format.
type Secret string

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Mark
}

// GoString keeps %#v from showing the value.
func (s Secret) GoString() string { return s.String() }

// MarshalText keeps encoders from showing the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the value itself. Call it only where the value leaves for its owner.
func (s Secret) Reveal() string { return string(s) }

// minWord is the shortest secret that Words looks for: a shorter one would mask ordinary words.
const minWord = 4

// Words replaces secrets by Mark, in plain text and as encoded in JSON.
func Words(secrets ...string) *strings.Replacer {
	secrets = slices.Clone(secrets)
	slices.SortFunc(secrets, longestFirst)
	var pairs []string
	for _, v := range secrets {
		if len(v) < minWord {
			continue
		}
		quoted, _ := json.Marshal(v)
		pairs = append(pairs, v, Mark, string(quoted[1:len(quoted)-1]), Mark)
	}
	return strings.NewReplacer(pairs...)
}

// longestFirst orders secrets, so that a secret which is the beginning of another does not hide it.
func longestFirst[S ~string | ~[]byte](a, b S) int { return len(b) - len(a) }
