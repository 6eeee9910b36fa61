package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// resource is a part of the document with a URL of its own, to which references inside are relative.
type resource struct {
	url     *url.URL
	at      string           // JSON pointer from the document's root
	anchors map[string]*node // by name
}

// compiler makes nodes of the schemas in one document.
type compiler struct {
	text        json.RawMessage
	draft       int
	resources   map[string]*resource // by URL
	nodes       map[string]*node     // by JSON pointer
	todo        []*node              // whose references are to be followed
	expressions int
}

// compile compiles a document with all that it refers to.
func compile(text json.RawMessage) (*node, error) {
	var kind struct {
		Schema string `json:"$schema"`
	}
	c := &compiler{text: text, draft: 2020, resources: map[string]*resource{}, nodes: map[string]*node{}}
	if text[0] == '{' {
		if err := json.Unmarshal(text, &kind); err != nil {
			return nil, err
		}
	}
	if kind.Schema != "" {
		if c.draft = draftOf(kind.Schema); c.draft == 0 {
			return nil, fmt.Errorf("the schema is of the kind %.200s; it must stand alone", kind.Schema)
		}
	}
	in := &resource{url: &url.URL{Scheme: "flynn", Host: "plugin", Path: "/schema"}, anchors: map[string]*node{}}
	c.resources[in.url.String()] = in
	root, err := c.read(text, "", in)
	for err == nil && len(c.todo) > 0 {
		n := c.todo[0]
		c.todo = c.todo[1:]
		err = c.follow(n)
	}
	return root, err
}

// draftOf is the draft of JSON Schema that a URL stands for; 0 for others.
func draftOf(kind string) int {
	_, path, _ := strings.Cut(strings.TrimSuffix(kind, "#"), "://")
	switch path {
	case "json-schema.org/schema", "json-schema.org/draft/2020-12/schema":
		return 2020
	case "json-schema.org/draft/2019-09/schema":
		return 2019
	case "json-schema.org/draft-07/schema":
		return 7
	case "json-schema.org/draft-06/schema":
		return 6
	case "json-schema.org/draft-04/schema":
		return 4
	}
	return 0
}

// read reads the schema at a JSON pointer and those in it.
func (c *compiler) read(text json.RawMessage, at string, in *resource) (*node, error) {
	n := new(node)
	if err := json.Unmarshal(text, n); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			err = fmt.Errorf("its %s cannot be a %s", kind.Field, kind.Value)
		}
		return nil, fmt.Errorf("not a JSON Schema: %w", err)
	}
	return n, c.add(at, n, in)
}

// add notes a schema with those in it: where it stands, what it is called, which resource it is part of.
func (c *compiler) add(at string, n *node, in *resource) error {
	if len(c.nodes) == maxWork {
		return fmt.Errorf("the schema has more than %d schemas", maxWork)
	}
	c.nodes[at] = n
	c.todo = append(c.todo, n)
	if err := c.identify(at, n, in); err != nil {
		return err
	}
	if err := c.settle(n); err != nil {
		return err
	}
	return n.each(func(below string, child *node) error { return c.add(at+below, child, n.base) })
}

// identify notes the id and the anchors of a schema.
func (c *compiler) identify(at string, n *node, in *resource) error {
	n.base = in
	id := n.ID
	if c.draft == 4 {
		id = n.OldID
	}
	if c.draft <= 7 {
		if n.Ref != nil {
			return nil // what stands beside it is ignored
		}
		if anchor, ok := strings.CutPrefix(id, "#"); ok {
			n.Anchor, id = anchor, ""
		}
	}
	if id != "" {
		u, err := in.url.Parse(id)
		if err != nil {
			return fmt.Errorf("the id %.200q is not a URL", id)
		}
		u.Fragment = ""
		if _, twice := c.resources[u.String()]; twice {
			return fmt.Errorf("the id %.200s is there twice", u)
		}
		n.base = &resource{url: u, at: at, anchors: map[string]*node{}}
		c.resources[u.String()] = n.base
	}
	for _, anchor := range []string{n.Anchor, n.DynamicAnchor} {
		if anchor == "" {
			continue
		}
		if other := n.base.anchors[anchor]; other != nil && other != n {
			return fmt.Errorf("the anchor %.80q is there twice", anchor)
		}
		n.base.anchors[anchor] = n
	}
	return nil
}

// settle prepares a schema for values: it compiles patterns, and takes what older drafts say to the form of the newest.
func (c *compiler) settle(n *node) (err error) {
	if n.Pattern != nil {
		c.expressions++
	}
	if c.expressions += len(n.PatternProperties); c.expressions > maxPatterns {
		return fmt.Errorf("the schema has more than %d regular expressions", maxPatterns)
	}
	n.patterns = map[string]*regexp.Regexp{}
	for text := range n.PatternProperties {
		if n.patterns[text], err = compileExpression(text); err != nil {
			return err
		}
	}
	if n.MultipleOf != nil && n.MultipleOf.Sign() <= 0 {
		return errors.New("the schema has a multipleOf that is not more than 0")
	}
	if n.ExclusiveMinimum.flag {
		n.ExclusiveMinimum.number, n.Minimum = n.Minimum, nil
	}
	if n.ExclusiveMaximum.flag {
		n.ExclusiveMaximum.number, n.Maximum = n.Maximum, nil
	}
	if c.draft > 7 {
		n.Format = "" // a remark, there
	}
	return nil
}

// follow finds the schemas to which one refers.
func (c *compiler) follow(n *node) error {
	var refs []*node
	for _, ref := range []*string{n.Ref, n.DynamicRef, n.RecursiveRef} {
		if ref == nil {
			continue
		}
		to, err := c.resolve(*ref, n.base)
		if err != nil {
			return err
		}
		refs = append(refs, to)
	}
	if n.Ref != nil && c.draft <= 7 {
		*n = node{base: n.base} // what stands beside it is ignored
	}
	n.refs = refs
	return nil
}

// resolve is the schema that a reference names.
func (c *compiler) resolve(ref string, from *resource) (*node, error) {
	u, err := from.url.Parse(ref)
	if err != nil {
		return nil, fmt.Errorf("the reference %.200q is not a URL", ref)
	}
	fragment := u.Fragment
	u.Fragment = ""
	in := c.resources[u.String()]
	if in == nil && draftOf(u.String()) > 0 && fragment == "" {
		return &node{Type: types{"object", "boolean"}}, nil // a schema of schemas
	}
	if in == nil {
		return nil, fmt.Errorf("the schema refers to %.200s; it must stand alone", ref)
	}
	n := c.nodes[in.at+fragment]
	if fragment != "" && fragment[0] != '/' {
		n = in.anchors[fragment]
	} else if n == nil {
		if text := lookup(c.text, in.at+fragment); text != nil {
			return c.read(text, in.at+fragment, in)
		}
	}
	if n == nil {
		return nil, fmt.Errorf("the schema refers to %.200s, which is not there", ref)
	}
	return n, nil
}

// lookup is what a JSON pointer leads to; nil where there is nothing. A place has one pointer, so a step that is written in another way
// than escape does leads nowhere.
func lookup(text json.RawMessage, at string) json.RawMessage {
	for step := range strings.SplitSeq(strings.TrimPrefix(at, "/"), "/") {
		key := strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		var object map[string]json.RawMessage
		var list []json.RawMessage
		i, err := strconv.Atoi(step)
		switch {
		case json.Unmarshal(text, &object) == nil && escape(key) == step:
			text = object[key]
		case json.Unmarshal(text, &list) == nil && err == nil && i >= 0 && i < len(list) && strconv.Itoa(i) == step:
			text = list[i]
		default:
			return nil
		}
	}
	return text
}

// escape writes a key as a step of a JSON pointer (RFC 6901).
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
