package meter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/policy/meter"
	"github.com/flynnhost/flynn/host/policy/meter/verify"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// TestSpecification runs the tests of the WebAssembly specification, in the form in which wazero's own module has them, three times side by
// side: as they are, metered, and metered by the interpreter. Every result, trap, memory and global has to be the same, and what the
// specification expects; both metered ones have to take the same fuel.
func TestSpecification(t *testing.T) {
	dir := specification(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	total := tally{refused: map[string]int{}}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "simd_") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			s := newSpec(t, &total)
			for _, c := range readSpec(t, file) {
				s.run(dir, &c)
			}
			s.finish()
		})
	}
	t.Logf("%d modules are the same, in %d results and %d traps; %d invalid ones stay so; refused: %v",
		total.modules, total.results, total.traps, total.invalid, total.refused)
	if total.modules < 500 || total.results < 15_000 || total.traps < 1_000 || total.invalid < 1_000 {
		t.Errorf("there were more once; the test is out of date")
	}
	for why := range total.refused {
		switch why {
		case "import", "linking", "over the limit", "unsupported name", "element outside":
		default:
			t.Errorf("%d modules are refused for %s, which is new", total.refused[why], why)
		}
	}
}

// tally counts over all files.
type tally struct {
	modules, results, traps, invalid int
	refused                          map[string]int
}

func specification(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	if err != nil {
		t.Fatalf("find wazero's module: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "internal/integration_test/spectest/v2/testdata")
}

// command is one line of a test of the specification.
type command struct {
	Type     string `json:"type"`
	Line     int    `json:"line"`
	Name     string `json:"name"`
	As       string `json:"as"`
	Filename string `json:"filename"`
	Action   struct {
		Type   string  `json:"type"`
		Module string  `json:"module"`
		Field  string  `json:"field"`
		Args   []datum `json:"args"`
	} `json:"action"`
	Expected []datum `json:"expected"`
}

// datum is a value, whose bits are a decimal number.
type datum struct {
	Type  string `json:"type"`
	Value any    `json:"value"`
}

func readSpec(t *testing.T, file string) []command {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Commands []command }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all.Commands
}

// bits is the value as the runtime takes it; every reference that the tests name is a small number, and null is none.
func (d datum) bits(t *testing.T) uint64 {
	s, _ := d.Value.(string)
	if s == "null" {
		return 0
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if d.Type == "externref" {
		v++ // 0 is null
	}
	return v
}

// matches compares a result with what is expected.
func (d datum) matches(t *testing.T, got uint64) bool {
	s, _ := d.Value.(string)
	nan := strings.HasPrefix(s, "nan:")
	switch {
	case nan && d.Type == "f32":
		return math.IsNaN(float64(api.DecodeF32(got)))
	case nan:
		return math.IsNaN(api.DecodeF64(got))
	case d.Type == "funcref" && s != "null":
		return got != 0
	}
	return d.of(got) == d.of(d.bits(t))
}

// of is what a value of the type is without the upper half, which is anybody's where it is not part of it.
func (d datum) of(v uint64) uint64 {
	if d.Type == "i32" || d.Type == "f32" {
		return uint64(uint32(v))
	}
	return v
}

// spec is the three worlds of one file.
type spec struct {
	t      *testing.T
	total  *tally
	worlds [3]*world // as it is, metered, metered and interpreted
	last   *trio
	named  map[string]*trio
	all    []*trio
	shared bool // modules that come may import from those that were
}

// trio is one module in the three worlds.
type trio struct {
	line    int
	modules [3]api.Module
}

func newSpec(t *testing.T, total *tally) *spec {
	s := &spec{t: t, total: total, named: map[string]*trio{}}
	for k, config := range []wazero.RuntimeConfig{wazero.NewRuntimeConfig(), wazero.NewRuntimeConfig(), wazero.NewRuntimeConfigInterpreter()} {
		s.worlds[k] = newWorldOf(t, config)
		s.worlds[k].slice, s.worlds[k].most = 1<<20, 1<<40
		b := s.worlds[k].runtime.NewHostModuleBuilder("spectest")
		for name, params := range map[string][]api.ValueType{"print": nil, "print_i32": {api.ValueTypeI32}, "print_i64": {api.ValueTypeI64}, "print_f32": {api.ValueTypeF32},
			"print_f64": {api.ValueTypeF64}, "print_i32_f32": {api.ValueTypeI32, api.ValueTypeF32}, "print_f64_f64": {api.ValueTypeF64, api.ValueTypeF64}} {
			b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(context.Context, []uint64) {}), params, nil).Export(name)
		}
		if _, err := b.Instantiate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *spec) run(dir string, c *command) {
	switch c.Type {
	case "module":
		s.last = s.load(dir, c)
		if c.Name != "" {
			s.named[c.Name] = s.last
		}
	case "assert_invalid", "assert_malformed":
		s.mustStayInvalid(dir, c)
	case "assert_uninstantiable":
		s.forget() // it may have begun
	case "register":
		s.shared = true
	case "action", "assert_return", "assert_trap":
		m := s.last
		if c.Action.Module != "" {
			m = s.named[c.Action.Module]
		}
		if m != nil {
			s.act(m, c)
		}
	}
}

// load brings a module into all worlds, or counts why it is refused.
func (s *spec) load(dir string, c *command) *trio {
	wasm, err := os.ReadFile(filepath.Join(dir, c.Filename))
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := meter.Rewrite(wasm, meter.Options{MaxPages: 1 << 16})
	if err != nil {
		s.total.refused[reason(err)]++
		s.forget()
		return nil
	}
	for _, imp := range out.Info.Imports {
		if imp.Module != "spectest" {
			s.total.refused["linking"]++
			s.forget()
			return nil
		}
	}
	if err := verify.Check(out.Wasm); err != nil {
		s.t.Fatalf("line %d: %v", c.Line, err)
	}
	m := &trio{line: c.Line}
	for k, v := range s.worlds {
		code := out.Wasm
		if k == 0 {
			code = wasm
		}
		if m.modules[k], err = v.runtime.InstantiateWithConfig(s.t.Context(), code, wazero.NewModuleConfig().WithName("").WithStartFunctions()); err != nil {
			s.t.Fatalf("line %d, world %d: %v", c.Line, k, err)
		}
		if k > 0 {
			s.refill(m.modules[k])
			if out.Info.HasStart {
				if _, err := m.modules[k].ExportedFunction(meter.StartExport).Call(s.t.Context()); err != nil {
					s.t.Fatalf("line %d, world %d: %v", c.Line, k, err)
				}
			}
		}
	}
	s.total.modules++
	s.all = append(s.all, m)
	return m
}

// forget drops the modules that one which was refused might have changed.
func (s *spec) forget() {
	if s.shared {
		clear(s.named)
	}
}

// reason is a refusal in a word.
func reason(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "has to define its own"), strings.Contains(text, "reserved prefix"):
		return "import"
	case strings.Contains(text, "cannot be printed"):
		return "unsupported name"
	case strings.Contains(text, "element segment"):
		return "element outside"
	case errors.Is(err, meter.ErrLimit):
		return "over the limit"
	}
	return text
}

// mustStayInvalid: what is no module is refused by the rewriter, or by the compiler that looks at what it makes.
func (s *spec) mustStayInvalid(dir string, c *command) {
	if !strings.HasSuffix(c.Filename, ".wasm") {
		return
	}
	wasm, err := os.ReadFile(filepath.Join(dir, c.Filename))
	if err != nil {
		s.t.Fatal(err)
	}
	s.total.invalid++
	out, err := meter.Rewrite(wasm, meter.Options{MaxPages: 1 << 16})
	if err != nil {
		return
	}
	// The compiler takes a few that it should not; and a start function is exported now, so that it may be referred to.
	if !out.Info.HasStart && s.compiles(out.Wasm) && !s.compiles(wasm) {
		s.t.Errorf("line %d: the invalid module %s has become valid", c.Line, c.Filename)
	}
}

func (s *spec) compiles(wasm []byte) bool {
	code, err := s.worlds[0].runtime.CompileModule(s.t.Context(), wasm)
	if err != nil {
		return false
	}
	_ = code.Close(s.t.Context())
	return true
}

const specDepth = 15_000

func (s *spec) refill(m api.Module) {
	m.ExportedGlobal(meter.FuelGlobal).(api.MutableGlobal).Set(1 << 20)
	m.ExportedGlobal(meter.DepthGlobal).(api.MutableGlobal).Set(specDepth)
}

// act calls or reads in all worlds and compares.
func (s *spec) act(m *trio, c *command) {
	var results [3][]uint64
	var traps [3]string
	var spent [3]int64
	for k := range s.worlds {
		results[k], traps[k], spent[k] = s.once(m, c, k)
	}
	at := fmt.Sprintf("line %d: %s", c.Line, c.Action.Field)
	if traps[0] != traps[1] || traps[1] != traps[2] {
		s.t.Fatalf("%s: traps %q", at, traps)
	}
	if spent[1] != spent[2] || c.Action.Type == "invoke" && spent[1] <= 0 {
		s.t.Fatalf("%s: fuel %v", at, spent)
	}
	if (c.Type == "assert_trap") != (traps[0] != "") {
		s.t.Fatalf("%s: trap %q", at, traps[0])
	}
	if traps[0] != "" {
		s.total.traps++
		return
	}
	for i, want := range c.Expected {
		for k := range s.worlds {
			if got := results[k][i]; !want.matches(s.t, got) {
				s.t.Fatalf("%s, world %d: %#x, want %v", at, k, got, want)
			}
		}
		if want.of(results[1][i]) != want.of(results[2][i]) && want.Type != "funcref" {
			s.t.Fatalf("%s: %#x by the compiler, %#x by the interpreter", at, results[1][i], results[2][i])
		}
	}
	s.total.results++
}

// once is the command in one world: its results, what trapped, and what it spent.
func (s *spec) once(m *trio, c *command, k int) ([]uint64, string, int64) {
	module := m.modules[k]
	if c.Action.Type == "get" {
		return []uint64{module.ExportedGlobal(c.Action.Field).Get()}, "", 0
	}
	v := s.worlds[k]
	v.spent = 0
	if k > 0 {
		s.refill(module)
	}
	var args []uint64
	for _, a := range c.Action.Args {
		args = append(args, a.bits(s.t))
	}
	got, err := module.ExportedFunction(c.Action.Field).Call(s.t.Context(), args...)
	var spent int64
	if k > 0 {
		spent = v.spent + v.slice - fuel(module)
	}
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return nil, first, spent
	}
	if k > 0 && module.ExportedGlobal(meter.DepthGlobal).Get() != specDepth {
		s.t.Fatalf("line %d: the depth is not given back", c.Line)
	}
	return got, "", spent
}

// finish compares what is left in memories and globals.
func (s *spec) finish() {
	for _, m := range s.all {
		var memories [3]string
		for k, module := range m.modules {
			if memory := module.Memory(); !reflect.ValueOf(memory).IsNil() { // a nil of its own type, where there is none
				view, _ := memory.Read(0, memory.Size())
				memories[k] = string(view)
			}
		}
		if memories[0] != memories[1] || memories[1] != memories[2] {
			s.t.Errorf("the memories of the module at line %d differ", m.line)
		}
	}
}
