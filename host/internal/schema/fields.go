package schema

import (
	"maps"
	"slices"
)

// Field is a key of the table that a schema describes.
type Field struct {
	Key         string
	Types       []string // JSON types; empty if the schema does not say
	Enum        []any
	Required    bool
	Title       string
	Description string
	Default     any // nil: the schema does not say
}

// Fields returns the keys of the table, the required ones first. It follows plain properties alone.
func (s *Schema) Fields() []Field {
	var needed, others []Field
	for _, key := range slices.Sorted(maps.Keys(s.compiled.Properties)) {
		p := s.compiled.Properties[key]
		f := Field{Key: key, Required: slices.Contains(s.compiled.Required, key), Title: p.Title, Description: p.Description}
		if p.Default != nil {
			f.Default = *p.Default
		}
		if p.Types != nil {
			f.Types = p.Types.ToStrings()
		}
		if p.Enum != nil {
			f.Enum = p.Enum.Values
		}
		if f.Required {
			needed = append(needed, f)
		} else {
			others = append(others, f)
		}
	}
	return append(needed, others...)
}
