package meter

// The import that counts blocks if Options.Count is set. It has its own module name, so that the checker knows it.
const (
	CountModule = Prefix + "count"
	CountImport = "block" // (number i32)
)

// Block is a basic block of the original module: instructions that are charged together, and all run unless one of them traps.
type Block struct {
	Function   int // index, imports included
	Start, End int // offsets in the content of the code section, as in DWARF
}

// emitCount counts the block whose charge was written last. The counters are outside of the module, so that counting changes neither its memory
// nor its fuel.
func (w *rewriter) emitCount(b []byte, e edit) []byte {
	b = appendSigned(append(b, opI32Const), int64(len(w.blocks)))
	w.blocks = append(w.blocks, Block{Start: e.at})
	return appendU32(append(b, opCall), w.count)
}

// place completes the blocks of one body, which begin at first.
func (w *rewriter) place(first, body int) {
	blocks, at := w.blocks[first:], w.bodyAt[body]
	for i := range blocks {
		b := &blocks[i]
		b.Function, b.End = len(w.imports)+body, at+len(w.bodies[body])
		b.Start += at
		if i > 0 {
			blocks[i-1].End = b.Start
		}
	}
}
