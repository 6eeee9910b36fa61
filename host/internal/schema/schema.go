// Package schema compiles JSON Schemas of others, such as a plugin or a server of tools, and reports where a value does not fit one.
//
// Start with Compile. A schema is treated as hostile: its length, its depth, its patterns and the work that it can cause are bounded, and
// no reference leaves it. The keywords themselves are the library's.
package schema

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Use is the purpose of a schema.
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

// name is the schema's URL, which the library requires.
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

// Validate checks a value, as encoding/json decodes it. The error is the library's and quotes the value.
func (s *Schema) Validate(value any) error { return s.compiled.Validate(value) }

// noLoader refuses every reference that leaves the schema: following one would read files or call servers on its author's behalf.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("the schema refers to %.200s; it must stand alone", url)
}

// patterns compiles the regular expressions of one schema. Later the library calls it for values of the format "regex".
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
