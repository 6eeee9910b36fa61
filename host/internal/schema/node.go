package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// node is one schema. Its exported fields are keywords; one that is not there asks nothing.
type node struct {
	ID            string  `json:"$id"`
	OldID         string  `json:"id"` // of draft 4
	Anchor        string  `json:"$anchor"`
	DynamicAnchor string  `json:"$dynamicAnchor"`
	Ref           *string `json:"$ref"`
	DynamicRef    *string `json:"$dynamicRef"`
	RecursiveRef  *string `json:"$recursiveRef"`

	Type             types       `json:"type"`
	Enum             *choice     `json:"enum"`
	Const            constant    `json:"const"`
	Format           string      `json:"format"`
	Minimum          *number     `json:"minimum"`
	ExclusiveMinimum exclusive   `json:"exclusiveMinimum"`
	Maximum          *number     `json:"maximum"`
	ExclusiveMaximum exclusive   `json:"exclusiveMaximum"`
	MultipleOf       *number     `json:"multipleOf"`
	MinLength        *number     `json:"minLength"`
	MaxLength        *number     `json:"maxLength"`
	Pattern          *expression `json:"pattern"`

	PrefixItems      []*node `json:"prefixItems"`
	Items            items   `json:"items"`
	AdditionalItems  *node   `json:"additionalItems"`
	UnevaluatedItems *node   `json:"unevaluatedItems"`
	Contains         *node   `json:"contains"`
	MinContains      *number `json:"minContains"`
	MaxContains      *number `json:"maxContains"`
	MinItems         *number `json:"minItems"`
	MaxItems         *number `json:"maxItems"`
	UniqueItems      bool    `json:"uniqueItems"`

	Properties            map[string]*node      `json:"properties"`
	PatternProperties     map[string]*node      `json:"patternProperties"`
	AdditionalProperties  *node                 `json:"additionalProperties"`
	UnevaluatedProperties *node                 `json:"unevaluatedProperties"`
	PropertyNames         *node                 `json:"propertyNames"`
	MinProperties         *number               `json:"minProperties"`
	MaxProperties         *number               `json:"maxProperties"`
	Required              []string              `json:"required"`
	Dependencies          map[string]dependency `json:"dependencies"`
	DependentRequired     map[string]dependency `json:"dependentRequired"`
	DependentSchemas      map[string]dependency `json:"dependentSchemas"`

	AllOf []*node `json:"allOf"`
	AnyOf []*node `json:"anyOf"`
	OneOf []*node `json:"oneOf"`
	Not   *node   `json:"not"`
	If    *node   `json:"if"`
	Then  *node   `json:"then"`
	Else  *node   `json:"else"`

	Defs        map[string]*node `json:"$defs"`
	Definitions map[string]*node `json:"definitions"`

	never    bool // it is the schema false
	base     *resource
	refs     []*node // where references lead
	patterns map[string]*regexp.Regexp
}

func (n *node) UnmarshalJSON(text []byte) error {
	switch {
	case text[0] == '{':
		type plain node // without this method
		return json.Unmarshal(text, (*plain)(n))
	case string(text) == "true" || string(text) == "false":
		n.never = text[0] == 'f'
		return nil
	}
	return errors.New("a schema must be an object or a boolean")
}

// each calls f with the schemas in one, and with their JSON pointers from it.
func (n *node) each(f func(at string, child *node) error) (err error) {
	try := func(at string, child *node) {
		switch {
		case err != nil:
		case child == nil: // null, in a list or a table
			err = fmt.Errorf("the schema at %.200s is not one", at)
		default:
			err = f(at, child)
		}
	}
	v := reflect.ValueOf(n).Elem()
	for i := range v.NumField() {
		at := "/" + v.Type().Field(i).Tag.Get("json")
		if at == "/" {
			continue
		}
		switch field := v.Field(i).Interface().(type) {
		case *node:
			if field != nil {
				try(at, field)
			}
		case items:
			if field.all != nil {
				try(at, field.all)
			}
			eachOf(at, field.each, try)
		case []*node:
			eachOf(at, field, try)
		case map[string]*node:
			for key, child := range field {
				try(at+"/"+escape(key), child)
			}
		case map[string]dependency:
			for key, d := range field {
				if d.schema != nil {
					try(at+"/"+escape(key), d.schema)
				}
			}
		}
	}
	return err
}

func eachOf(at string, list []*node, f func(at string, child *node)) {
	for i, child := range list {
		f(at+"/"+strconv.Itoa(i), child)
	}
}

// types are names of types, or one name.
type types []string

func (t *types) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		text = slices.Concat([]byte("["), text, []byte("]"))
	}
	if err := json.Unmarshal(text, (*[]string)(t)); err != nil {
		return errors.New("a type must be a name, or a list of names")
	}
	for _, name := range *t {
		if !slices.Contains([]string{"array", "boolean", "integer", "null", "number", "object", "string"}, name) {
			return fmt.Errorf("there is no type %.40q", name)
		}
	}
	return nil
}

// choice is some values.
type choice struct {
	identities []string
	want       string // for people
}

func (c *choice) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var values []any
	if err := d.Decode(&values); err != nil {
		return err
	}
	var words []string
	for _, v := range values {
		c.identities = append(c.identities, identity(v))
		words = append(words, fmt.Sprintf("%q", fmt.Sprint(v)))
	}
	c.want = strings.Join(words, " or ")
	return nil
}

// constant is a choice of one value, which may be null.
type constant struct{ *choice }

func (c *constant) UnmarshalJSON(text []byte) error {
	c.choice = new(choice)
	return c.choice.UnmarshalJSON(slices.Concat([]byte("["), text, []byte("]")))
}

// number keeps how it is written.
type number struct {
	*big.Rat
	text string
}

func (n *number) UnmarshalJSON(text []byte) error {
	n.text, n.Rat = string(text), rational(json.Number(text))
	if n.Rat == nil {
		return fmt.Errorf("%.40s is not a number", text)
	}
	return nil
}

func (n *number) more(than int) bool { return n.Cmp(new(big.Rat).SetInt64(int64(than))) > 0 }
func (n *number) less(than int) bool { return n.Cmp(new(big.Rat).SetInt64(int64(than))) < 0 }

// exclusive is a bound that is left out itself. In draft 4 it is a flag, which says so of the bound beside it.
type exclusive struct {
	*number
	flag bool
}

func (e *exclusive) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &e.flag) == nil {
		return nil
	}
	return json.Unmarshal(text, &e.number)
}

// expression is a regular expression.
type expression struct{ *regexp.Regexp }

func (e *expression) UnmarshalJSON(text []byte) (err error) {
	var pattern string
	if err := json.Unmarshal(text, &pattern); err != nil {
		return err
	}
	e.Regexp, err = compileExpression(pattern)
	return err
}

func compileExpression(text string) (*regexp.Regexp, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("a regular expression has %d bytes, at most %d", len(text), maxPattern)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, errors.New("a regular expression is not one that Go reads")
	}
	return re, nil
}

// items is a schema for all elements, or, before draft 2020-12, one for each of the first.
type items struct {
	all  *node
	each []*node
}

func (i *items) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, &i.each)
	}
	return json.Unmarshal(text, &i.all)
}

// dependency is what a key asks of the object that has it: keys beside it, or a schema.
type dependency struct {
	needs  []string
	schema *node
}

func (d *dependency) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, &d.needs)
	}
	return json.Unmarshal(text, &d.schema)
}
