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

	"github.com/flynnhost/flynn/host/policy/meter"
)

const (
	// MapSuffix is what the source map beside a module has behind the module's name.
	MapSuffix = ".map"
	// MaxMap bounds a source map, in bytes.
	MaxMap     = 16 << 20
	maxSources = 1 << 12
)

// sourceMap is a source map of revision 3 (ECMA-426), as compilers to Wasm write it: the whole module is line 0, and a column is the
// offset of an instruction in the file.
type sourceMap struct {
	Version  int      `json:"version"`
	Sources  []string `json:"sources"`
	Mappings string   `json:"mappings"`
	Sections []any    `json:"sections,omitempty"` // a map of maps, which is not read
	// Module is the digest of the module that the map is of. Names that begin with x_ are free for use.
	Module string `json:"x_flynn_module_sha256,omitempty"`
}

var (
	errMap   = errors.New("no source map of revision 3 for a module")
	errOther = errors.New("the source map is of another module")
)

// KeepMap is a source map as it lies beside the module: without the text of the source, and with the module's digest.
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

// ReadMapped is Read for a module beside which a source map lies. The map is used where the module itself says nothing of lines. One that
// cannot be read, or that says it is of another module, is an error; the source is as Read has it then.
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
	module, err := meter.Look(wasm)
	if err != nil {
		return s, err
	}
	segments, err := m.segments()
	if err != nil {
		return s, err
	}
	s.rows = mapRows(segments, m.names(), module)
	return s, nil
}

// names are the files, or "" for one without a name to show.
func (m *sourceMap) names() []string {
	list := make([]string, len(m.Sources))
	for i, name := range m.Sources {
		if name = printable(name); name != "" && len(name) < maxName {
			list[i] = path.Clean(name)
		}
	}
	return list
}

// segment says that the code from an offset of the file on is of a line; source is -1 where it is of none.
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

// mapRows gives the code between two segments to the line of the first. A segment never reaches beyond its function.
func mapRows(segments []segment, names []string, module *meter.Inside) []row {
	var rows []row
	for i, s := range segments {
		if s.source < 0 || names[s.source] == "" {
			continue
		}
		start := s.at - module.CodeAt()
		// The first function that ends behind it.
		f := sort.Search(module.Bodies(), func(i int) bool { b := module.Body(i); return b.At+len(b.Code) > start })
		if f == module.Bodies() || module.Body(f).At > start {
			continue
		}
		end := module.Body(f).At + len(module.Body(f).Code)
		if i+1 < len(segments) {
			end = min(end, segments[i+1].at-module.CodeAt())
		}
		if start < end {
			rows = append(rows, row{start: start, end: end, position: position{file: names[s.source], line: s.line}})
		}
	}
	return rows
}
