package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/policy/meter"
	"github.com/flynnhost/flynn/host/policy/opa"
	"github.com/flynnhost/flynn/sdk/policy/abi"
	"github.com/tetratelabs/wazero/api"
)

// Modules that OPA's compiler made of Rego are metered, verified, pooled and asked like all others. Only facts and answers differ: they are JSON
// documents, passed by OPA's Wasm ABI. Package opa has the contract.

// dialect describes a module with OPA's ABI. Its numbers are found when the first instance is set up, and are the same in all.
type dialect struct {
	entrypoints map[string]uint64
	builtins    map[uint32]opa.Builtin
	reads       func(fact string) bool
	context     uint64 // address of the evaluation context, whose data is set
	heap        uint64 // the heap pointer at the beginning of each decision
}

// opaExports returns the functions of the module that the host calls.
func opaExports() map[string]meter.Signature {
	return map[string]meter.Signature{
		"opa_malloc": "(i32) -> i32", "opa_heap_ptr_get": "() -> i32", "opa_heap_ptr_set": "(i32)",
		"opa_json_parse": "(i32, i32) -> i32", "opa_json_dump": "(i32) -> i32",
		"opa_eval_ctx_new": "() -> i32", "opa_eval_ctx_set_data": "(i32, i32)", "opa_eval_ctx_set_input": "(i32, i32)",
		"opa_eval_ctx_set_entrypoint": "(i32, i32)", "opa_eval_ctx_get_result": "(i32) -> i32",
		"eval": "(i32) -> i32", "builtins": "() -> i32", "entrypoints": "() -> i32",
	}
}

// dialectOf returns nil for a module without OPA's ABI.
func dialectOf(info meter.Info, wasm []byte) *dialect {
	_, flynn := info.Exports["flynn_abi"]
	_, rego := info.Exports["opa_eval_ctx_new"]
	if flynn || !rego {
		return nil
	}
	names, told := opa.Reads(wasm)
	return &dialect{reads: func(fact string) bool { return !told || slices.Contains(names, fact) }}
}

// checkDialect compares the module with OPA's contract.
func (m *Module) checkDialect() error {
	if m.info.HiddenState {
		return fmt.Errorf("the module changes tables or drops segments, which OPA's compiler never does")
	}
	for name, signature := range opaExports() {
		have, ok := m.info.Exports[name]
		switch {
		case !ok:
			return fmt.Errorf("the module has OPA's ABI and does not export %s%s: build it with a newer OPA", name, signature)
		case have != signature:
			return fmt.Errorf("the module's %s is %s, in OPA's ABI it is %s", name, have, signature)
		}
	}
	return nil
}

// entrypointOf returns the rule that answers a kind of decision.
func entrypointOf(kind string) string {
	if kind == KindTool {
		return opa.EntrypointTool
	}
	return opa.EntrypointRoute
}

// rego has the functions of an instance with OPA's ABI.
type rego struct {
	setHeap, malloc, parse, dump, setInput, setEntrypoint, eval, result api.Function
	input                                                               document
	// evaluating is true while eval runs, except in a host function that it called. Only then may the module call a builtin: reading the arguments
	// of one calls functions of the module, and a function that is already running would overwrite its stack.
	evaluating bool
}

func newRego(wasm api.Module, d *dialect) *rego {
	f := wasm.ExportedFunction
	return &rego{
		setHeap: f("opa_heap_ptr_set"), malloc: f("opa_malloc"), parse: f("opa_json_parse"), dump: f("opa_json_dump"),
		setInput: f("opa_eval_ctx_set_input"), setEntrypoint: f("opa_eval_ctx_set_entrypoint"),
		eval: f("eval"), result: f("opa_eval_ctx_get_result"),
		input: newDocument(d.reads),
	}
}

// invoke calls a function with its parameters and returns its result, if it has one.
func (i *instance) invoke(f api.Function, params ...uint64) (uint64, *Error) {
	copy(i.stack[:], params)
	err := i.call(f)
	return uint64(uint32(i.stack[0])), err
}

// steps makes calls until one fails.
type steps struct {
	i   *instance
	err *Error
}

func (s *steps) call(f api.Function, params ...uint64) (result uint64) {
	if s.err == nil {
		result, s.err = s.i.invoke(f, params...)
	}
	return result
}

// parse makes a value in the module from JSON.
func (s *steps) parse(text []byte) uint64 {
	at := s.call(s.i.rego.malloc, uint64(len(text)))
	if s.err == nil {
		s.err = s.i.charge(int64(len(text)) / bytesPerUnit)
	}
	if s.err == nil && !s.i.memory.Write(uint32(at), text) {
		s.err = failf(ClassTrap, "opa_malloc gave %d, outside memory", at)
	}
	v := s.call(s.i.rego.parse, at, uint64(len(text)))
	if s.err == nil && v == 0 {
		s.err = failf(ClassTrap, "opa_json_parse refuses %d bytes of JSON", len(text))
	}
	return v
}

// dump returns a value in the module as JSON, a view that is valid until the module continues.
func (s *steps) dump(value uint64, most int) []byte {
	at := s.call(s.i.rego.dump, value)
	if s.err != nil {
		return nil
	}
	text, ok := s.i.cString(at, most)
	if !ok {
		s.err = failf(ClassAnswer, "a text at %d of more than %d bytes", at, most)
		return nil
	}
	if s.err = s.i.charge(int64(len(text)) / bytesPerUnit); s.err != nil {
		return nil
	}
	return text
}

// cString returns the text up to a zero byte.
func (i *instance) cString(at uint64, most int) ([]byte, bool) {
	size := i.memory.Size()
	if at >= uint64(size) {
		return nil, false
	}
	view, _ := i.memory.Read(uint32(at), min(uint32(most)+1, size-uint32(at)))
	end := bytes.IndexByte(view, 0)
	if end < 0 {
		return nil, false
	}
	return view[:end], true
}

// Bounds of what is read once, and the heap that a new instance gets at once, so that few decisions have to grow the memory; in bytes.
const (
	maxMapping = 64 << 10
	firstHeap  = 64 << 10
)

// setUpRego reads the module's entrypoints and builtins, and gives it the configured data. It runs once for each first state.
func (i *instance) setUpRego() error {
	if v := i.wasm.ExportedGlobal("opa_wasm_abi_version"); v == nil || v.Get() != 1 {
		return fmt.Errorf("the module does not export opa_wasm_abi_version 1")
	}
	m, s := i.module, &steps{i: i}
	entrypoints, builtins := map[string]uint32{}, map[string]uint32{}
	err := s.mapping("entrypoints", &entrypoints)
	if err == nil {
		err = s.mapping("builtins", &builtins)
	}
	if err == nil {
		err = m.bind(entrypoints, builtins)
	}
	if err != nil {
		return err
	}
	data, err := m.dataDocument()
	if err != nil {
		return err
	}
	m.rego.context = s.call(i.wasm.ExportedFunction("opa_eval_ctx_new"))
	s.call(i.wasm.ExportedFunction("opa_eval_ctx_set_data"), m.rego.context, s.parse(data))
	m.rego.heap = s.call(i.wasm.ExportedFunction("opa_heap_ptr_get"))
	s.call(i.rego.malloc, firstHeap)
	s.call(i.rego.setHeap, m.rego.heap)
	return untyped(s.err)
}

// mapping reads one of the module's tables of names and numbers.
func (s *steps) mapping(name string, into *map[string]uint32) error {
	text := s.dump(s.call(s.i.wasm.ExportedFunction(name)), maxMapping)
	if s.err != nil {
		return s.err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the module's %s cannot be read: %w", name, err)
	}
	return nil
}

// bind resolves the module's entrypoints and builtins.
func (m *Module) bind(entrypoints, builtins map[string]uint32) error {
	m.rego.entrypoints, m.rego.builtins = map[string]uint64{}, map[uint32]opa.Builtin{}
	for _, kind := range m.source.Kinds {
		id, ok := entrypoints[entrypointOf(kind)]
		if !ok {
			return fmt.Errorf("the module has no entrypoint %s, which a policy of kind %s needs: compile it with flynn policy dev build, or opa build -t wasm -e %s",
				entrypointOf(kind), kind, entrypointOf(kind))
		}
		m.rego.entrypoints[kind] = uint64(id)
	}
	var missing []string
	for name, id := range builtins {
		b, ok := opa.BuiltinNamed(name)
		if !ok {
			missing = append(missing, name)
		}
		m.rego.builtins[id] = b
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("the module calls %s, which this host does not offer; it offers %s. The time is in input.unix_time",
			strings.Join(missing, ", "), strings.Join(opa.Names(), ", "))
	}
	return nil
}

// dataDocument returns the policy's configured data as OPA's document data.
func (m *Module) dataDocument() ([]byte, error) {
	if _, ok := m.source.Data[opa.Package]; ok {
		return nil, fmt.Errorf("the policy's data has the key %q, which is the package of its rules: choose another", opa.Package)
	}
	if m.source.Data == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(m.source.Data) // sorted by key
}

// runRego is run for a module with OPA's ABI.
func (i *instance) runRego(r *Record, v *decision) {
	kind := i.q.kind
	input, err := i.document()
	if err != nil {
		v.err = err
		return
	}
	d, s := i.module.rego, &steps{i: i}
	s.call(i.rego.setHeap, d.heap)
	before := i.spent
	s.call(i.rego.setInput, d.context, s.parse(input))
	i.note(HostCall{Name: InputCall, Args: i.rego.input.large, Ret: int32(min(i.spent-before, 1<<31-1))})
	s.call(i.rego.setEntrypoint, d.context, d.entrypoints[kind])
	i.rego.evaluating = true
	failed := s.call(i.rego.eval, d.context)
	i.rego.evaluating = false
	if s.err == nil && failed != 0 {
		s.err = failf(ClassTrap, "OPA's eval failed with %d", int32(failed))
	}
	text := s.dump(s.call(i.rego.result, d.context), opa.MaxAnswer)
	if v.err = s.err; v.err != nil {
		return
	}
	if v.err = i.charge(int64(len(text)) * costAnswerByte); v.err != nil {
		return
	}
	v.readRego(kind, text, r, &i.names)
}

// document makes the document input, and pays for it first.
func (i *instance) document() ([]byte, *Error) {
	var args json.RawMessage
	size := 0
	if i.rego.input.args {
		args = i.q.arguments()
		size = len(args)
	}
	if i.rego.input.text {
		size += len(i.q.text)
	}
	if err := i.charge(int64(size) * costDocumentByte); err != nil {
		return nil, err
	}
	return i.rego.input.build(i.q, args)
}

// The costs of documents in units of fuel for each byte: of checking and writing the long parts of the input, and of reading the answer.
const (
	costDocumentByte = 4
	costAnswerByte   = 16
)

// InputCall is the name of the entry in a record's calls for reading the document input. Its arguments are "args" and "text" if the
// document has them, its result is the fuel that reading took.
const InputCall = "input"

// readRego reads an answer. The raw answer in the record has a checksum of the text in place of a length.
func (v *decision) readRego(kind string, text []byte, r *Record, in *interned) {
	read := opa.ReadRoute
	if kind == KindTool {
		read = opa.ReadTool
	}
	a, err := read(text)
	if err != nil {
		v.err = &Error{ClassAnswer, err}
		return
	}
	r.Raw = int64(crc32.ChecksumIEEE(text))<<32 | int64(a.Rule)<<8 | int64(a.Code)
	v.code, v.rule, v.reason = a.Code, a.Rule, a.Reason
	if a.Code != abi.RouteAbstain {
		v.name, v.words = in.get([]byte(a.Name))
	}
	if v.reason == "" && v.rule != 0 {
		v.reason = in.rule(v.rule)
	}
}
