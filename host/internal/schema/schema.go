// Package schema compiles JSON Schemas that somebody else wrote, a plugin or a server of tools, and says where a value differs from one.
//
// Such a schema is hostile: it is bounded in length, depth and the work that it can ask for, its patterns are bounded, and no reference
// leaves it. Start reading at Compile; node.go has the keywords, check.go what they ask of a value. Drafts 4 to 2020-12 are read, and the
// test holds the package against the official suite. A dynamic reference leads where a plain one would; it does not fill in defaults, and
// reads neither vocabularies nor content inside strings.
//
// It is no library because none that is kept does all of this: every difference at once, without the value in its words, within a bound
// on the work, and at no cost for a start that checks nothing.
package schema

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
)

// Use says what a schema is for.
type Use int

const (
	// Arguments of a tool. Its schema may refer to itself, as that of a tree does, and what is wrong with each of several alternatives
	// is told.
	Arguments Use = iota
	// Settings of a plugin, whose schema unfolds to a finite tree.
	Settings
)

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	root *node
	use  Use
}

// Bounds on a schema.
const (
	MaxBytes    = 64 << 10
	maxDepth    = 64     // nesting of its JSON
	maxPattern  = 512    // bytes of one regular expression
	maxPatterns = 200    // regular expressions
	maxWork     = 10_000 // schemas that one value, or with Settings any value, can be held against
)

// Compile compiles a schema.
func Compile(text []byte, use Use) (*Schema, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the schema has %d bytes, at most %d", len(text), MaxBytes)
	}
	if err := strict(text); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	root, err := compile(bytes.TrimSpace(text))
	if err != nil {
		return nil, err
	}
	if err := bounded(root, use); err != nil {
		return nil, err
	}
	return &Schema{root, use}, nil
}

// Keys are those that the schema names for the table at a path, as far as it can be followed through plain properties; nil elsewhere.
func (s *Schema) Keys(path ...string) []string {
	at := s.root
	for _, key := range path {
		if at = at.Properties[key]; at == nil {
			return nil
		}
	}
	return slices.Sorted(maps.Keys(at.Properties))
}
