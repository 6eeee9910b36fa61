package cover

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/policy/meter"
)

const (
	// MapSuffix added to a module's name is the name of its source map.
	MapSuffix = ".map"
	// MaxMap bounds a source map, in bytes.
	MaxMap     = 16 << 20
	maxSources = 1 << 12
	maxName    = 1 << 10 // bytes of a source's name
)

// sourceMap is a source map of revision 3 (ECMA-426), as compilers to Wasm write it: the whole module is line 0, and a column is the
// offset of an instruction in the file.
type sourceMap struct {
	Version  int      `json:"version"`
	Sources  []string `json:"sources"`
	Mappings string   `json:"mappings"`
	Sections []any    `json:"sections,omitempty"` // a map of maps, which is refused
	// Module is the digest of the map's module. Names that begin with x_ are free for use.
	Module string `json:"x_flynn_module_sha256,omitempty"`
}

var (
	errMap   = errors.New("no source map of revision 3 for a module")
	errOther = errors.New("the source map is of another module")
)

// KeepMap returns the source map to keep beside a module: without the text of the source, and with the module's digest.
func KeepMap(data, wasm []byte) ([]byte, error) {
	m, err := readMap(data)
	if err != nil {
		return nil, err
	}
	m.Module = digest(wasm)
	return json.Marshal(m)
}

func digest(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return hex.EncodeToString(sum[:])
}

func readMap(data []byte) (*sourceMap, error) {
	if len(data) > MaxMap {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", errMap, len(data), MaxMap)
	}
	m := &sourceMap{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%w: %w", errMap, err)
	}
	if m.Version != 3 || len(m.Sections) > 0 || len(m.Sources) > maxSources {
		return nil, errMap
	}
	return m, nil
}

// ReadMapped is Read for a module with a source map, which is used if the module itself has no lines. If the map cannot be
// read, or is of another module, it returns an error and what Read returns.
func ReadMapped(wasm, data []byte) (*Source, error) {
	s, err := Read(wasm)
	if err != nil || s.HasLines() {
		return s, err
	}
	m, err := readMap(data)
	if err != nil {
		return s, err
	}
	if m.Module != "" && m.Module != digest(wasm) {
		return s, errOther
	}
	module, err := meter.FindCode(wasm)
	if err != nil {
		return s, err
	}
	segments, err := m.segments()
	if err == nil {
		s.rows = mapRows(segments, m.names(), module)
	}
	return s, err
}

// names returns the names of the files, "" for one that is not fit to be shown.
func (m *sourceMap) names() []string {
	list := make([]string, len(m.Sources))
	for i, name := range m.Sources {
		if len(name) < maxName && printable(name) {
			list[i] = path.Clean(name)
		}
	}
	return list
}

// printable reports whether a name has text, and only text: no characters that a terminal, or a file of lines, takes for more.
func printable(name string) bool {
	unfit := func(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) }
	return name != "" && !strings.ContainsFunc(name, unfit)
}

// segment says that the code from an offset of the module on belongs to a line; source is -1 if it belongs to none.
type segment struct {
	at, source, line int
}

// segments decodes the mappings: differences to the segment before, of 1, 4 or 5 numbers each. Offsets rise.
func (m *sourceMap) segments() ([]segment, error) {
	var list []segment
	var last [5]int64 // offset, source, line, column, name
	for rest := m.Mappings; rest != ""; {
		var one string
		one, rest, _ = strings.Cut(rest, ",")
		numbers, err := vlq(one)
		if err != nil {
			return nil, err
		}
		if n := len(numbers); n != 1 && n != 4 && n != 5 || len(list) >= maxRows || numbers[0] < 0 {
			return nil, fmt.Errorf("%w: segment %d", errMap, len(list))
		}
		for i, n := range numbers {
			if last[i] += n; last[i] < 0 || last[i] > 1<<30 {
				return nil, fmt.Errorf("%w: segment %d leaves its range", errMap, len(list))
			}
		}
		s := segment{int(last[0]), -1, 0}
		if len(numbers) > 1 {
			if s.source, s.line = int(last[1]), int(last[2])+1; s.source >= len(m.Sources) {
				return nil, fmt.Errorf("%w: segment %d names source %d of %d", errMap, len(list), s.source, len(m.Sources))
			}
		}
		list = append(list, s)
	}
	return list, nil
}

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// vlq decodes up to five signed numbers: five bits a digit, the lowest first, of which the very first is the sign.
func vlq(text string) ([]int64, error) {
	var list []int64
	var value int64
	shift := 0
	for i := range len(text) {
		d := strings.IndexByte(digits, text[i])
		if d < 0 || shift > 30 || len(list) == 5 {
			return nil, fmt.Errorf("%w: %.20q is no list of numbers", errMap, text)
		}
		value |= int64(d&0x1f) << shift
		if shift += 5; d&0x20 != 0 {
			continue
		}
		n := value >> 1
		if value&1 != 0 {
			n = -n
		}
		list, value, shift = append(list, n), 0, 0
	}
	if shift != 0 {
		return nil, fmt.Errorf("%w: %.20q ends within a number", errMap, text)
	}
	return list, nil
}

// mapRows assigns the code between two segments to the line of the first. A segment never reaches beyond its function.
func mapRows(segments []segment, names []string, module *meter.Code) []row {
	var rows []row
	for i, s := range segments {
		if s.source < 0 || names[s.source] == "" {
			continue
		}
		start := s.at - module.At
		// The first function that ends behind it.
		f := sort.Search(len(module.Bodies), func(i int) bool { return module.Bodies[i].End > start })
		if f == len(module.Bodies) || module.Bodies[f].Start > start {
			continue
		}
		end := module.Bodies[f].End
		if i+1 < len(segments) {
			end = min(end, segments[i+1].at-module.At)
		}
		if start < end {
			rows = append(rows, row{start: start, end: end, position: position{file: names[s.source], line: s.line}})
		}
	}
	return rows
}
