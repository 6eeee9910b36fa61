package meter

// Inside is a module that was taken apart, for those who look for what a compiler has left in it.
type Inside struct {
	w *rewriter
}

// Body is the code of one of a module's own functions, its declarations of locals included.
type Body struct {
	Function int // index, imports included
	At       int // where it begins in the content of the code section
	Code     []byte
}

// Instruction is one instruction of a body.
type Instruction struct {
	At    int // offset in the body
	Op    byte
	Depth int // labels that are open where it stands, that of the function included
}

// Look takes a module apart. It checks no more than Rewrite does.
func Look(wasm []byte) (*Inside, error) {
	if len(wasm) > MaxModule {
		return nil, over("bytes of the module", len(wasm), MaxModule)
	}
	m, err := decode(wasm)
	if err != nil {
		return nil, err
	}
	if err := m.check(Options{MaxPages: 1 << 16}); err != nil {
		return nil, err
	}
	return &Inside{newRewriter(m, Options{})}, nil
}

// CodeAt is where the content of the code section begins in the module.
func (x *Inside) CodeAt() int { return x.w.codeAt }

// Bodies is how many functions the module has of its own.
func (x *Inside) Bodies() int { return len(x.w.bodies) }

// Body is one of them.
func (x *Inside) Body(i int) Body {
	return Body{len(x.w.imports) + i, x.w.bodyAt[i], x.w.bodies[i]}
}

// Imports is how many functions come before those.
func (x *Inside) Imports() int { return len(x.w.imports) }

// Instructions appends those of a body to a list.
func (x *Inside) Instructions(list []Instruction, i int) ([]Instruction, error) {
	_, err := x.w.analyseAll(x.w.types[x.w.funcs[len(x.w.imports)+i]], x.w.bodies[i], func(in Instruction) { list = append(list, in) })
	return list, err
}

// Memory is what the memory begins as, up to the last byte that is set. Of segments that lie beyond limit it has nothing.
func (x *Inside) Memory(limit int) []byte {
	end := 0
	for _, s := range x.w.data {
		if last := int64(s.offset) + int64(len(s.data)); !s.passive && last <= int64(limit) {
			end = max(end, int(last))
		}
	}
	image := make([]byte, end)
	for _, s := range x.w.data {
		if !s.passive && int64(s.offset)+int64(len(s.data)) <= int64(limit) {
			copy(image[s.offset:], s.data)
		}
	}
	return image
}
