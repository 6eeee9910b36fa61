// Package schema compiles JSON Schemas that somebody else wrote, a plugin or a server of tools, and says where a value differs from one.
//
// Such a schema is hostile: it is bounded in length, depth and the work that it can ask for, its patterns are bounded, and no reference
// leaves it. Start reading at Compile. The keywords themselves are the library's.
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Use says what a schema is for.
type Use int

const (
	// Arguments of a tool. Its schema may refer to itself, as that of a tree does.
	Arguments Use = iota
	// Settings of a plugin, whose schema unfolds to a finite tree.
	Settings
)

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema
}

// Bounds on a schema.
const (
	MaxBytes    = 64 << 10
	maxDepth    = 64     // nesting of its JSON
	maxPattern  = 512    // bytes of one regular expression
	maxPatterns = 200    // regular expressions
	maxWork     = 10_000 // schemas that one value, or with Settings any value, can be held against
)

// name stands for the schema in the library, where everything has a URL.
const name = "flynn://plugin/schema"

// Compile compiles a schema.
func Compile(text []byte, use Use) (*Schema, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the schema has %d bytes, at most %d", len(text), MaxBytes)
	}
	if err := strict(text); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	patterns := &patterns{left: maxPatterns}
	c.UseRegexpEngine(patterns.compile)
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, err
	}
	patterns.compiled = true
	if err := bounded(compiled, use); err != nil {
		return nil, err
	}
	return &Schema{compiled}, nil
}

// Validate holds a value, as encoding/json decodes it, against the schema. The error is the library's and quotes the value.
func (s *Schema) Validate(value any) error { return s.compiled.Validate(value) }

// noLoader refuses every reference that leaves the schema: following one would read files or call servers on its author's behalf.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %.200s; it must stand alone", url)
}

// patterns compiles the regular expressions of one schema. Later the library asks it about values of the format "regex".
type patterns struct {
	left     int
	compiled bool
}

var errPatterns = fmt.Errorf("the schema has more than %d regular expressions", maxPatterns)

func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("a regular expression has %d bytes, at most %d", len(text), maxPattern)
	}
	if !p.compiled {
		if p.left--; p.left < 0 {
			return nil, errPatterns
		}
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, errors.New("a regular expression is not one that Go reads")
	}
	return re, nil
}
