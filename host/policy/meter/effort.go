package meter

// Bounds of the compiler's work on one function. Its time and memory grow with products of these, and it checks its deadline only
// between functions, so a function that would take minutes or gigabytes has to be refused before. The largest functions of Go's
// encoding/json reach at most a third of each bound.
const (
	MaxLabels  = 4_096     // blocks, loops and ifs
	MaxLoops   = 1_024     // loops
	MaxBlocks  = 16 << 10  // basic blocks: labels and the targets of branches
	MaxPhis    = 256 << 10 // basic blocks times locals and operands
	MaxSearch  = 200 << 20 // basic blocks times instructions: finding the definition of a value may search all earlier blocks
	MaxTraffic = 64 << 10  // values passed by calls, branches and blocks

	MaxInstructions  = 512 << 10
	MaxModuleTraffic = 4 << 20 // of all functions, because passing a value becomes code
)

// Weights of instructions for which the compiler makes much code.
const (
	trafficCall     = 4 // values, besides those that are passed
	trafficIndirect = 8
	blocksBulk      = 8 // of the check and the loop over a range
	blocksIf        = 2 // of a br_if that becomes an if
)

// effort estimates the compiler's work on one function.
type effort struct {
	labels, loops int
	blocks        int
	instructions  int
	traffic       int
}

// branches counts n branches to a label that takes a number of values.
func (e *effort) branches(n, values int) {
	e.blocks += n
	e.traffic += n * values
}

// check refuses a function that would take the compiler too long. width is the maximum of its locals and operands.
func (e *effort) check(width int) error {
	switch {
	case e.labels > MaxLabels:
		return over("blocks in one function", e.labels, MaxLabels)
	case e.loops > MaxLoops:
		return over("loops in one function", e.loops, MaxLoops)
	case e.blocks > MaxBlocks:
		return over("blocks and branches in one function", e.blocks, MaxBlocks)
	case e.blocks*max(width, 1) > MaxPhis:
		return over("blocks times locals and operands of one function", e.blocks*width, MaxPhis)
	case e.instructions > MaxInstructions:
		return over("instructions in one function", e.instructions, MaxInstructions)
	case e.blocks*e.instructions > MaxSearch:
		return over("blocks times instructions of one function", e.blocks*e.instructions, MaxSearch)
	case e.traffic > MaxTraffic:
		return over("values passed by calls and branches of one function", e.traffic, MaxTraffic)
	}
	return nil
}
