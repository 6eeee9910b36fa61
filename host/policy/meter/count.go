package meter

// The import that counts blocks if Options.Count is set. It has its own module name, so that each instance can have its own counters.
const (
	CountModule = Prefix + "count"
	CountImport = "block" // (number i32)
)

// CounterMemory is the export of a Counter's memory: a little-endian i64 for each block.
const CounterMemory = "counts"

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

// Counter returns a module that counts blocks for one instance of a module that was rewritten with Options.Count.
func Counter(blocks int) []byte {
	const page = 64 << 10
	pages := uint32(blocks*8+page-1) / page
	section := func(b []byte, id byte, content ...[]byte) []byte {
		list := appendU32(nil, 1)
		for _, c := range content {
			list = append(list, c...)
		}
		return appendSection(b, id, list)
	}
	const three, load, store = 3, 0x29, 0x37
	body := []byte{0, // no locals
		opLocalGet, 0, opI32Const, three, opI32Shl, opLocalTee, 0,
		opLocalGet, 0, load, three, 0, opI64Const, 1, opI64Add, store, three, 0, opEnd}
	b := []byte("\x00asm\x01\x00\x00\x00")
	b = section(b, secType, []byte{0x60, 1, typeI32, 0})
	b = section(b, secFunction, []byte{0})
	b = section(b, secMemory, appendLimits(nil, limits{min: pages, max: pages, hasMax: true}))
	exports := appendU32(append(appendName([]byte{2}, CountImport), kindFunc), 0)
	b = appendSection(b, secExport, appendU32(append(appendName(exports, CounterMemory), kindMemory), 0))
	return section(b, secCode, appendBytes(nil, body))
}
