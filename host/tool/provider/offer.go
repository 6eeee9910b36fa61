package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	toolkind "github.com/flynnhost/flynn/host/plugin/kind/tools"
)

// offer is a tool as its provider describes it, without invisible characters.
type offer struct {
	spec   toolkind.Spec
	digest string // of the whole description
}

// newOffers sorts a list by name, removes invisible characters and applies the bounds. left describes the omitted tools.
func newOffers(specs []toolkind.Spec) (offers []offer, left []string) {
	specs = slices.Clone(specs)
	slices.SortFunc(specs, func(a, b toolkind.Spec) int { return strings.Compare(a.Name, b.Name) })
	words := 0
	for i, s := range specs {
		o := offer{spec: s, digest: digest(s)}
		o.spec.Description = visible(s.Description)
		var err error
		if o.spec.InputSchema, err = visibleJSON(s.InputSchema); err != nil {
			left = append(left, fmt.Sprintf("%s: its schema cannot be read: %v", s.Name, err))
			continue
		}
		words += len(o.spec.Description) + len(o.spec.InputSchema)
		if len(offers) == maxTools || words > maxWords {
			left = append(left, fmt.Sprintf("%s and %d more: a provider has at most %d tools, which say at most %d bytes", s.Name, len(specs)-i-1, maxTools, maxWords))
			break
		}
		offers = append(offers, o)
	}
	return offers, left
}

// digest is a digest of the whole description of a tool.
func digest(s toolkind.Spec) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q %t %d", s.Name, s.Description, s.InputSchema, s.OutputSchema, s.Effect, s.Idempotent, s.Timeout)
	return hex.EncodeToString(h.Sum(nil))
}

// visible drops characters that a model reads and a person does not see: controls, directions, tags and other formats, private characters.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return '\n'
		case !unicode.IsGraphic(r), unicode.Is(unicode.Variation_Selector, r):
			return -1
		}
		return r
	}, text)
}

// visibleJSON is visible for all strings of a schema. It refuses keys with such characters.
func visibleJSON(raw json.RawMessage) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	v, ok := visibleValue(v, 0)
	if !ok {
		return nil, fmt.Errorf("it is nested deeper than %d", maxNesting)
	}
	return jsonform.Marshal(v)
}

// maxNesting bounds the depth of a schema.
const maxNesting = 64

func visibleValue(v any, depth int) (any, bool) {
	if depth > maxNesting {
		return nil, false
	}
	ok := true
	switch v := v.(type) {
	case string:
		return visible(v), true
	case []any:
		for i := range v {
			var fine bool
			v[i], fine = visibleValue(v[i], depth+1)
			ok = ok && fine
		}
	case map[string]any:
		for key, value := range v {
			seen := visible(key)
			if seen != key {
				return nil, false
			}
			var fine bool
			v[key], fine = visibleValue(value, depth+1)
			ok = ok && fine
		}
	}
	return v, ok
}
