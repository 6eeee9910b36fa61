// Package meter rewrites a WebAssembly module so that its run time is bounded: it charges fuel for every basic block,
// bounds the depth of calls, and calls the host when a slice of fuel is spent.
//
// Wazero has no fuel, and the code that it compiles cannot be preempted: a module that spins, or whose calls form a large
// tree without a single loop, would block the garbage collector of the whole process. So the module is changed, before it is compiled,
// to stop by itself.
//
// Start with Rewrite. It adds to the module
//
//   - two mutable i64 globals, exported as FuelGlobal and DepthGlobal. The host sets them before a call;
//   - the imports TickImport, DeepImport and GrowImport of module ImportModule. Tick is called when a check finds fuel below
//     zero, and refills it or panics. Deep is called when depth falls below zero, and panics. Grow stands for the instruction
//     memory.grow;
//   - exports of the module's own mutable globals (GlobalPrefix and a number) and, in place of a start section, of its start
//     function (StartExport), so that the host can restore and run them.
//
// Fuel is charged at the start of every basic block, for all of the block, and checked at the start of every function and loop.
// The fuel of a call therefore depends on the module and its inputs only. Operations on ranges of memory and
// tables are charged for the length of the range, with a check. Depth is charged for each active call, more for a function with a
// large frame; a function without calls is not charged, because it cannot recurse.
//
// A br_if behind a comparison becomes a branch in an if, which is charged the same and runs faster; see branchIf.
//
// Answers do not depend on the machine: a NaN that arithmetic produces is replaced by the canonical one at once, clock and
// randomness are the host's, and everything else in WebAssembly without threads is deterministic. So the same question gets the same
// answer for the same fuel, with any compiler and on any processor.
//
// The rewriter refuses features that it does not know: threads, SIMD, exceptions, tail calls, garbage collection, several memories.
// Package verify checks the result with separate code.
package meter

import (
	"errors"
	"fmt"
)

// Version has to change with everything that changes the fuel of a decision.
const Version = 2

// Names that the rewriter adds. A module that uses Prefix in a name of its own is refused.
const (
	Prefix       = "__flynn_"
	ImportModule = "__flynn_host"
	TickImport   = "tick" // ()
	DeepImport   = "deep" // ()
	GrowImport   = "grow" // (pages i32) -> i32, as memory.grow
	FuelGlobal   = Prefix + "fuel"
	DepthGlobal  = Prefix + "depth"
	StartExport  = Prefix + "start"
	GlobalPrefix = Prefix + "global_" // and the index
)

// Bounds of a module.
const (
	MaxModule    = 8 << 20 // bytes
	MaxFunctions = 60_000
	MaxTypes     = 10_000
	MaxImports   = 1_000
	MaxGlobals   = 10_000
	MaxExports   = 10_000
	MaxTables    = 16
	MaxTable     = 64 << 10 // elements of one table
	MaxBody      = 1 << 20  // bytes of one function
	MaxLocals    = 4_096    // of one function, parameters included
	MaxArity     = 64       // parameters or results of a type
	MaxName      = 1_024    // bytes of an import's or export's name
)

// ErrMalformed is wrapped by errors about a module that is not valid WebAssembly.
var ErrMalformed = errors.New("malformed module")

// ErrUnsupported is wrapped by errors about a feature that the rewriter does not know.
var ErrUnsupported = errors.New("not supported in a policy")

// ErrLimit is wrapped by errors about a module that is too large in some way.
var ErrLimit = errors.New("over the limit")

// Options of one rewriting.
type Options struct {
	MaxPages uint32 // of linear memory, 64 KiB each
	Count    bool   // also count how often each basic block runs; see Block
}

// Output is a rewritten module.
type Output struct {
	Wasm   []byte
	Info   Info
	Blocks []Block // that are counted, by their number
}

// Info is what the rewriter found out about the module. Indices are those of the original.
type Info struct {
	Imports   []Import // functions; other imports are refused
	Exports   map[string]Signature
	HasMemory bool // exports its memory as "memory"
	HasStart  bool
	// Mutable are the names under which the module's own mutable globals are exported, for saving and restoring.
	Mutable []string
	// HiddenState is true if the module has state outside of memory and globals: it changes tables or drops segments.
	HiddenState bool
	Floats      bool // uses floating point
	MinPages    uint32
	Functions   int
	Segments    [2]int // data segments before and after merging
}

// Import is an imported function.
type Import struct {
	Module, Name string
	Type         Signature
}

// Signature is a function type, written like "(i32, i64) -> i32".
type Signature string

// Rewrite meters a module. The input is not trusted: every size in it is checked.
func Rewrite(wasm []byte, o Options) (*Output, error) {
	if len(wasm) > MaxModule {
		return nil, fmt.Errorf("%w: the module has %d bytes, at most %d are allowed", ErrLimit, len(wasm), MaxModule)
	}
	m, err := decode(wasm)
	if err != nil {
		return nil, err
	}
	if err := m.check(o); err != nil {
		return nil, err
	}
	r := newRewriter(m, o)
	out, err := r.build()
	if err != nil {
		return nil, err
	}
	return &Output{Wasm: out, Info: r.info(), Blocks: r.blocks}, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

func over(what string, have, most int) error {
	return fmt.Errorf("%w: %d %s, at most %d are allowed", ErrLimit, have, what, most)
}
