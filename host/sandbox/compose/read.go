package compose

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds the nodes of a file after its aliases are expanded.
const maxNodes = 20_000

// maxServices bounds the services of a project.
const maxServices = 16

// reader converts nodes to a project. It goes on after an error, to report all of them.
type reader struct {
	file   string
	errs   Errors
	budget int
	named  map[string]bool // volumes
	beside map[string]bool // variables that an environment file beside this one sets
}

// entry is one key of a mapping with its value.
type entry struct {
	key   string
	line  int
	value *yaml.Node
}

// Parse parses the text of a file; file is its path, for errors and relative sources. The error is an Errors.
func Parse(file string, src []byte) (*Project, error) { return parse(file, src, nil) }

func parse(file string, src []byte, beside map[string]bool) (*Project, error) {
	r := &reader{file: file, budget: maxNodes, beside: beside}
	p := r.project(src)
	if len(r.errs) > 0 {
		slices.SortStableFunc(r.errs, func(a, b Error) int { return a.Line - b.Line })
		return nil, r.errs
	}
	return p, nil
}

func (r *reader) refuse(line int, key, problem, hint string) {
	r.errs = append(r.errs, Error{File: r.file, Line: line, Key: key, Problem: problem, Hint: hint})
}

// document returns the top mapping of the only document.
func (r *reader) document(src []byte) (*yaml.Node, bool) {
	var documents []*yaml.Node
	for dec := yaml.NewDecoder(strings.NewReader(string(src))); ; {
		var n yaml.Node
		err := dec.Decode(&n)
		if err != nil && err.Error() == "EOF" {
			break
		}
		if err != nil {
			r.refuse(lineOf(err), "", "it is not YAML: "+strings.TrimPrefix(err.Error(), "yaml: "), "correct the line")
			return nil, false
		}
		if documents = append(documents, &n); len(documents) > 1 {
			r.refuse(n.Line, "", "a second document begins", "keep one")
			return nil, false
		}
	}
	if len(documents) == 0 || len(documents[0].Content) != 1 {
		r.refuse(1, "", "the file is empty", "write services, each with an image")
		return nil, false
	}
	r.tags(documents[0].Content[0])
	return documents[0].Content[0], true
}

// tags refuses YAML tags, such as Compose's !reset. Each node is visited once, however many aliases refer to it.
func (r *reader) tags(n *yaml.Node) {
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
		r.refuse(n.Line, "", fmt.Sprintf("tag %.40q is not supported", n.Tag), "remove it")
	}
	for _, each := range n.Content {
		r.tags(each)
	}
}

var yamlLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`line (\d+)`) })

// lineOf extracts the line number from an error of the YAML parser.
func lineOf(err error) int {
	if m := yamlLine().FindStringSubmatch(err.Error()); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return n
		}
	}
	return 1
}

// follow resolves an alias and counts the node.
func (r *reader) follow(n *yaml.Node) *yaml.Node {
	r.budget--
	for depth := 0; n != nil && n.Kind == yaml.AliasNode && depth < 8; depth++ {
		n = n.Alias
	}
	return n
}

// mapping returns the entries of a mapping in order, followed by those merged into it.
func (r *reader) mapping(n *yaml.Node, key string) []entry {
	return r.merged(n, key, 0)
}

// maxMerges bounds the depth of merges.
const maxMerges = 8

func (r *reader) merged(n *yaml.Node, key string, depth int) []entry {
	n = r.follow(n)
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return nil
	case n.Kind != yaml.MappingNode:
		r.refuse(n.Line, key, "it is not a mapping", "write its keys below it, indented")
		return nil
	case r.budget < 0 || depth > maxMerges:
		r.refuse(n.Line, key, "the file unfolds to too much", "use fewer aliases")
		return nil
	}
	var own, inherited []entry
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := r.follow(n.Content[i]), n.Content[i+1]
		switch {
		case k.Kind != yaml.ScalarNode:
			r.refuse(k.Line, key, "a key is not a plain word", "write a plain key")
		case k.Tag == "!!merge":
			inherited = append(inherited, r.merges(v, key, depth)...)
		case seen[k.Value]:
			r.refuse(k.Line, join(key, k.Value), "the key stands twice", "keep one")
		default:
			seen[k.Value] = true
			own = append(own, entry{k.Value, k.Line, v})
		}
	}
	for _, e := range inherited {
		if !seen[e.key] {
			seen[e.key] = true
			own = append(own, e)
		}
	}
	return own
}

// merges returns the entries of the mappings that a merge key names; the first of a name counts.
func (r *reader) merges(v *yaml.Node, key string, depth int) []entry {
	v = r.follow(v)
	if v.Kind != yaml.SequenceNode {
		return r.merged(v, key, depth+1)
	}
	var all []entry
	for _, each := range v.Content {
		all = append(all, r.merged(each, key, depth+1)...)
	}
	return all
}

func join(key, more string) string {
	if key == "" {
		return more
	}
	return key + "." + more
}

// text returns the text of a scalar with its variables replaced. It reports false for null.
func (r *reader) text(n *yaml.Node, key string) (string, bool) {
	n = r.follow(n)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Tag == "!!binary" {
		r.refuse(n.Line, key, "it is not text", "write one value")
		return "", false
	}
	value, err := interpolate(n.Value, r.beside)
	if err == nil && strings.ContainsRune(value, 0) {
		err = fmt.Errorf("it contains a zero byte: remove it")
	}
	if err != nil {
		problem, hint, _ := strings.Cut(err.Error(), ": ")
		r.refuse(n.Line, key, problem, hint)
		return "", false
	}
	return value, true
}

// texts returns a list of scalars.
func (r *reader) texts(n *yaml.Node, key string) []string {
	n = r.follow(n)
	if n.Kind != yaml.SequenceNode {
		r.refuse(n.Line, key, "it is not a list", "write its elements below it, each after a dash")
		return nil
	}
	list := make([]string, 0, len(n.Content))
	for i, each := range n.Content {
		if r.budget < 0 {
			break
		}
		if s, ok := r.text(each, fmt.Sprintf("%s[%d]", key, i)); ok {
			list = append(list, s)
		}
	}
	return list
}

// list returns a list of scalars, or of the one scalar that stands in its place.
func (r *reader) list(n *yaml.Node, key string) []string {
	if f := r.follow(n); f.Kind == yaml.ScalarNode {
		s, ok := r.text(f, key)
		if !ok {
			return nil
		}
		return []string{s}
	}
	return r.texts(n, key)
}

// isNull reports whether a value is missing.
func (r *reader) isNull(n *yaml.Node) bool {
	n = r.follow(n)
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// words returns a command: a list, or a line that is split as a shell does.
func (r *reader) words(n *yaml.Node, key string) []string {
	if r.isNull(n) {
		return nil
	}
	f := r.follow(n)
	if f.Kind != yaml.ScalarNode {
		return r.texts(n, key)
	}
	line, ok := r.text(f, key)
	if !ok {
		return nil
	}
	words, err := split(line)
	if err != nil {
		r.refuse(f.Line, key, err.Error(), "write the words as a list")
	}
	return words
}

func (r *reader) bool(n *yaml.Node, key string) bool {
	f := r.follow(n)
	s, ok := r.text(n, key)
	b, err := strconv.ParseBool(s)
	if ok && (err != nil || len(s) < 4) {
		r.refuse(f.Line, key, fmt.Sprintf("%q is not true or false", s), "write true or false")
	}
	return b
}

func (r *reader) integer(n *yaml.Node, key string, low, high int64) int64 {
	f := r.follow(n)
	s, ok := r.text(n, key)
	i, err := strconv.ParseInt(s, 10, 64)
	if ok && (err != nil || i < low || i > high) {
		r.refuse(f.Line, key, fmt.Sprintf("%q is not a number from %d to %d", s, low, high), "write one")
		return 0
	}
	return i
}
