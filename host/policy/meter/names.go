package meter

// The parts of a name section.
const (
	nameModule    = 0
	nameFunctions = 1
)

// nameSection shifts the function indices of the name section, which is used for stack traces. A section that cannot be read is dropped.
func (w *rewriter) nameSection() []byte {
	r := &reader{data: w.names}
	var out []byte
	for !r.done() {
		id := r.byte()
		part := &reader{data: r.bytes(r.count())}
		switch id {
		case nameModule:
			part.name()
			out = appendSection(out, id, part.data)
		case nameFunctions:
			out = appendSection(out, id, w.functionNames(part))
		}
		if r.err != nil || part.err != nil || !part.done() {
			return nil
		}
	}
	return out
}

func (w *rewriter) functionNames(r *reader) []byte {
	n := r.count()
	b := appendU32(nil, uint32(n))
	for range n {
		f := r.u32()
		if int64(f) >= int64(len(w.funcs)) {
			r.fail("name of an unknown function")
			return nil
		}
		b = appendName(appendU32(b, w.moved(f)), r.name())
	}
	return b
}
