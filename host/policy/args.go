package policy

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// maxArgs bounds the arguments that a policy can read, in bytes.
const maxArgs = 4 << 20

// tree is the arguments of a tool call, parsed on first use and shared by the chain.
type tree struct {
	parsed bool
	root   any
	err    error
}

// node is one value in the arguments.
type node struct {
	value  any
	exists bool
}

// argument returns the value at a JSON Pointer (RFC 6901). The first call of a decision pays for the parsing, whether or not another policy
// has caused it before.
func (i *instance) argument(pointer string) node {
	if i.q.tree == nil {
		return node{} // a route has no arguments
	}
	i.checkClock()
	if !i.askedArgs {
		i.askedArgs = true
		i.pay(int64(len(i.q.args)) * 4)
	}
	i.q.tree.parse(i.q.args)
	if i.q.tree.err != nil {
		i.abort(&Error{ClassFacts, i.q.tree.err})
	}
	return lookup(i.q.tree.root, pointer)
}

func (t *tree) parse(args json.RawMessage) {
	if t.parsed {
		return
	}
	t.parsed = true
	if len(args) > maxArgs {
		t.err = failf(ClassFacts, "the arguments have %d bytes, at most %d can be read", len(args), maxArgs)
		return
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	t.err = d.Decode(&t.root)
}

func lookup(root any, pointer string) node {
	if pointer == "" {
		return node{root, true}
	}
	if pointer[0] != '/' {
		return node{}
	}
	at := root
	for _, step := range strings.Split(pointer[1:], "/") {
		var ok bool
		if at, ok = child(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(step)); !ok {
			return node{}
		}
	}
	return node{at, true}
}

func child(at any, step string) (any, bool) {
	switch v := at.(type) {
	case map[string]any:
		c, ok := v[step]
		return c, ok
	case []any:
		n, err := strconv.Atoi(step)
		if err != nil || n < 0 || n >= len(v) || strconv.Itoa(n) != step {
			return nil, false
		}
		return v[n], true
	}
	return nil, false
}

func (n node) kind() int32 {
	if !n.exists {
		return abi.KindAbsent
	}
	switch n.value.(type) {
	case bool:
		return abi.KindBool
	case json.Number:
		return abi.KindNumber
	case string:
		return abi.KindString
	case []any:
		return abi.KindArray
	case map[string]any:
		return abi.KindObject
	}
	return abi.KindNull
}

// text returns a string without quotes, and any other value as JSON.
func (n node) text() ([]byte, bool) {
	if s, ok := n.value.(string); ok || !n.exists {
		return []byte(s), n.exists
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(n.value); err != nil {
		return nil, false // cannot be: it came out of a decoder
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), true
}
