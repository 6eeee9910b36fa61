package meter

// Bounds of the work of the compiler on one function. Its time and memory grow with products of these, and it looks at the clock only
// between functions, so a function that would take it minutes or gigabytes has to be refused before. The largest functions of the
// Go library with its JSON reach a third of each bound at most.
const (
	MaxLabels  = 4_096     // blocks, loops and ifs
	MaxLoops   = 1_024     // loops
	MaxBlocks  = 16 << 10  // basic blocks: labels and the targets of branches
	MaxPhis    = 256 << 10 // basic blocks times what lives in them: locals and operands
	MaxSearch  = 200 << 20 // basic blocks times instructions, for a use may look for its definition through all blocks before it
	MaxTraffic = 64 << 10  // values handed over by calls, branches and blocks

	MaxInstructions  = 512 << 10
	MaxModuleTraffic = 4 << 20 // of all functions; what is handed over becomes code, and all code is kept
)

// Instructions that count for more than one, for the code that the compiler makes of them.
const (
	trafficCall     = 4 // values, beside those that are handed over
	trafficIndirect = 8
	blocksBulk      = 8 // the loop over a range, and the check before it
	blocksIf        = 2 // of a br_if that becomes an if
)

// effort is what the compiler will have to do for one function.
type effort struct {
	labels, loops int
	blocks        int
	instructions  int
	traffic       int
}

// branches counts n targets of a branch to a label with so many values.
func (e *effort) branches(n, values int) {
	e.blocks += n
	e.traffic += n * values
}

// check refuses a function that would take the compiler too long. Width is its locals and operands at most.
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
		return over("values handed over by calls and branches of one function", e.traffic, MaxTraffic)
	}
	return nil
}
