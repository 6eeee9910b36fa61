package author

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/meter"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// Sheet is what is known about a module without running it.
type Sheet struct {
	Path     string    `json:"path"`
	Problems []Problem `json:"problems"` // those for which the loader refuses it first
	Bytes    int       `json:"bytes"`
	SHA256   string    `json:"sha256"`
	Digest   string    `json:"digest"` // of module, data, limits and meter version, as the host names it
	Contract string    `json:"contract"`
	Kinds    []string  `json:"kinds"`   // hooks that it exports
	Exports  []string  `json:"exports"` // functions, with their types
	Imports  []string  `json:"imports"`

	MinPages      int      `json:"min_pages"` // of memory, 64 KiB each
	MaxPages      int      `json:"max_pages"` // -1 if it declares none
	Tables        []string `json:"tables"`
	Globals       int      `json:"globals"`
	Mutable       int      `json:"mutable_globals"`
	Functions     int      `json:"functions"`
	Code          int      `json:"code_bytes"`
	Data          int      `json:"data_bytes"`
	Recursive     []string `json:"recursive"`                // functions that call themselves, or each other in a circle
	ThroughTables int      `json:"recursive_through_tables"` // further ones that may be, by calls through tables
	IndirectCalls int      `json:"indirect_calls"`
	Floats        bool     `json:"floats"`
	Hidden        []string `json:"hidden_state"` // instructions whose effects a reset cannot undo

	Sections  []Section        `json:"sections"`
	Producers []meter.Producer `json:"producers"`
	Lines     bool             `json:"lines"` // it has debug information or a source map with lines
	Names     int              `json:"names"` // functions with a name

	Limits []LimitAsked `json:"limits"`
}

// Problem is a reason why the loader refuses a module, or something that its author should know.
type Problem struct {
	Refused bool   `json:"refused"` // the loader refuses the module
	Text    string `json:"text"`
}

// Section is a custom section.
type Section struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// LimitAsked is a limit that the manifest asks for, and the host's default.
type LimitAsked struct {
	Name    string `json:"name"`
	Asked   string `json:"asked"`
	Default string `json:"default"`
	Above   bool   `json:"above"` // the default
}

// maxShown bounds the names in a list for people.
const maxShown = 8

// Inspect examines a module, or the built module of a policy's folder with the folder's kinds and limits. A module without a folder has
// the kinds of the hooks that it exports.
func Inspect(ctx context.Context, path string) (Sheet, error) {
	source, err := sourceOf(path)
	if err != nil {
		return Sheet{}, err
	}
	in, err := policy.Inspect(ctx, source)
	if err != nil {
		return Sheet{}, err
	}
	s := Sheet{
		Path: source.Path, Bytes: len(in.Wasm), SHA256: in.File, Digest: in.Digest, Limits: limitsAsked(source.Limits), Problems: []Problem{},
		Kinds: []string{}, Exports: []string{}, Imports: []string{}, Tables: []string{}, Recursive: []string{}, Hidden: []string{},
	}
	if in.Refused != nil {
		s.Problems = append(s.Problems, Problem{true, in.Refused.Error()})
	}
	names := s.readSections(source.Path, in.Wasm)
	s.readInfo(in)
	s.readPlan(in.Wasm, names)
	s.advise(source, path)
	return s, nil
}

// sourceOf returns the policy at a path as a host would configure it.
func sourceOf(path string) (policy.Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return policy.Source{}, err
	}
	if !info.IsDir() {
		s := policy.Source{Name: strings.TrimSuffix(filepath.Base(path), ".wasm"), Path: path, Kinds: []string{policy.KindTool}}
		// The kinds are those of its hooks; a module that cannot be read is refused later, whatever its kinds.
		if hooks, _ := policy.Examine(s); len(hooks) > 0 {
			s.Kinds = hooks
		}
		return s, nil
	}
	m, err := LoadManifest(path)
	if err != nil {
		return policy.Source{}, err
	}
	if _, err := os.Stat(m.modulePath(path)); errors.Is(err, os.ErrNotExist) {
		return policy.Source{}, fmt.Errorf("%s is not built: run flynn policy dev build %s", m.modulePath(path), path)
	}
	return policy.Source{Name: m.Name, Path: m.modulePath(path), Kinds: m.Kinds, Data: m.Data, Limits: m.Limits.Policy()}, nil
}

func (s *Sheet) readInfo(in policy.Inspection) {
	for name, t := range in.Info.Exports {
		s.Exports = append(s.Exports, name+string(t))
		if kind := strings.TrimPrefix(name, "flynn_"); kind == policy.KindRoute || kind == policy.KindTool {
			s.Kinds = append(s.Kinds, kind)
		}
	}
	slices.Sort(s.Exports)
	slices.Sort(s.Kinds)
	s.Contract = "unknown"
	if in.Rego {
		s.Contract = "OPA's Wasm ABI"
	}
	for _, imp := range in.Info.Imports {
		s.Imports = append(s.Imports, imp.Module+"."+imp.Name+string(imp.Type))
		if imp.Module == abi.Module {
			s.Contract = fmt.Sprintf("flynn %d", abi.Major)
		}
	}
}

// readSections also returns the names of the functions.
func (s *Sheet) readSections(path string, wasm []byte) (names map[int]string) {
	sections, err := meter.Sections(wasm)
	if err != nil {
		return nil // it is refused for this error
	}
	s.Sections, s.Producers = []Section{}, []meter.Producer{}
	for _, c := range sections {
		s.Sections = append(s.Sections, Section{c.Name, len(c.Data)})
		switch c.Name {
		case "name":
			names = meter.FunctionNames(c.Data)
			s.Names = len(names)
		case "producers":
			s.Producers = append(s.Producers, meter.Producers(c.Data)...)
		}
	}
	if source, err := readSource(path, wasm); err == nil {
		s.Lines = source.HasLines()
	}
	return names
}

func (s *Sheet) readPlan(wasm []byte, names map[int]string) {
	p, err := meter.Survey(wasm)
	if err != nil {
		return // it is refused for this error
	}
	s.MinPages, s.MaxPages, s.Globals, s.Mutable, s.Functions = p.MinPages, p.MaxPages, p.Globals, p.Mutable, p.Functions
	s.Code, s.Data, s.ThroughTables, s.IndirectCalls, s.Floats = p.Code, p.Data, p.ThroughTables, p.IndirectCalls, p.Floats
	s.Tables, s.Hidden = append(s.Tables, p.Tables...), append(s.Hidden, p.Hidden...)
	if p.ABI != 0 {
		s.Contract = fmt.Sprintf("flynn %d.%d", p.ABI>>16, p.ABI&0xffff)
		if p.ABI>>16 != abi.Major || p.ABI&0xffff > abi.Minor {
			s.Problems = append(s.Problems, Problem{true, fmt.Sprintf("the module speaks %s, this host flynn %d.%d", s.Contract, abi.Major, abi.Minor)})
		}
	}
	for _, f := range p.Recursive {
		s.Recursive = append(s.Recursive, cmp.Or(names[f], fmt.Sprintf("function %d", f)))
	}
}

// advise adds warnings for the author.
func (s *Sheet) advise(source policy.Source, dir string) {
	warn := func(format string, args ...any) {
		s.Problems = append(s.Problems, Problem{false, fmt.Sprintf(format, args...)})
	}
	if len(s.Hidden) > 0 {
		warn("it has state that a reset cannot undo (%s): isolation = \"pure\" is not possible", strings.Join(s.Hidden, ", "))
	}
	own := s.ownRecursive(dir)
	if n := len(own); n > 0 {
		list := strings.Join(own[:min(n, maxShown)], ", ")
		if n > maxShown {
			list += ", ..."
		}
		warn("%d functions may call themselves (%s): make sure that no input decides how deeply", n, list)
	}
	for _, l := range s.Limits {
		if l.Above {
			warn("it asks for %s %s, the host's default is %s: flynn.toml has to grant it", l.Name, l.Asked, l.Default)
		}
	}
	if s.Names == 0 && !s.Lines && s.Functions > 0 {
		warn("it has names of neither functions nor lines: traces and coverage will show numbers")
	}
	if want := int64(s.MinPages) << 16; want > cmp.Or(source.Limits.Memory, policy.DefaultMemory)/2 && s.MinPages > 0 {
		warn("it begins with %s of memory, more than half of its limit", units.BytesSize(float64(want)))
	}
}

// ownRecursive returns the author's recursive functions, without those of the language's runtime, of which Go has many.
func (s *Sheet) ownRecursive(dir string) []string {
	language := ""
	for _, p := range s.Producers {
		if p.Field == "language" {
			language = strings.ToLower(p.Name)
		}
	}
	own := ownCode(Manifest{Language: language}, dir).Function
	return slices.DeleteFunc(slices.Clone(s.Recursive), func(name string) bool { return own != nil && !own(name) })
}

func limitsAsked(l policy.Limits) []LimitAsked {
	bytes := func(n int64) string { return units.BytesSize(float64(n)) }
	row := func(name string, asked, most int64, show func(int64) string) LimitAsked {
		return LimitAsked{name, show(cmp.Or(asked, most)), show(most), asked > most}
	}
	number := func(n int64) string { return fmt.Sprint(n) }
	span := func(n int64) string { return time.Duration(n).String() }
	return []LimitAsked{
		row("fuel", l.Fuel, policy.DefaultFuel, number), row("memory", l.Memory, policy.DefaultMemory, bytes),
		row("depth", int64(l.Depth), policy.DefaultDepth, number), row("host_calls", int64(l.HostCalls), policy.DefaultHostCalls, number),
		row("wall", int64(l.Wall), int64(policy.DefaultWall), span),
	}
}
