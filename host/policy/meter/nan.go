package meter

import "bytes"

// The specification leaves the sign and payload of a NaN that arithmetic produces to the machine, and machines differ: a module could store
// the NaN and answer differently. So after each instruction that can produce one, any NaN is replaced by the positive canonical one, which the
// specification always allows. Instructions that only move bits keep them.

// costNaN is the number of instructions of the replacement.
const costNaN = 6

// makesNaN returns the type of the NaN that an instruction may produce, or 0.
func makesNaN(op byte) byte {
	switch {
	case op >= 0x8d && op <= 0x97, op == 0xb6: // ceil to max, demote
		return typeF32
	case op >= 0x9b && op <= 0xa5, op == 0xbb: // ceil to max, promote
		return typeF64
	}
	return 0
}

// canonical adds the replacement after an instruction that may produce a NaN, and charges for it.
func (a *analyser) canonical(op byte) {
	t := makesNaN(op)
	if t == 0 {
		return
	}
	a.charge(costNaN)
	a.f.effort.instructions += costNaN
	a.push(2)
	a.pop(2)
	a.f.needs[bytes.IndexByte(tempTypes[:], t)] = true
	a.f.edits = append(a.f.edits, edit{kind: editNaN, at: a.r.at, arg: uint32(t)})
}

// emitNaN replaces the float on top of the stack if it is a NaN: the only value that is not equal to itself.
func emitNaN(b []byte, temp uint32, t byte) []byte {
	constant, equal := []byte{opF64Const, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f}, byte(opF64Eq)
	if t == typeF32 {
		constant, equal = []byte{opF32Const, 0, 0, 0xc0, 0x7f}, opF32Eq
	}
	b = appendU32(append(b, opLocalTee), temp)
	b = append(b, constant...)
	b = appendU32(append(b, opLocalGet), temp)
	b = appendU32(append(b, opLocalGet), temp)
	return append(b, equal, opSelect)
}

// tempTypes are the types of the locals that the rewriter adds to a function that needs them.
var tempTypes = [...]byte{typeI32, typeF32, typeF64}

// temps returns the types of those that this function needs, which follow its own locals.
func (f *function) temps() []byte {
	var list []byte
	for k, needed := range f.needs {
		if needed {
			list = append(list, tempTypes[k])
		}
	}
	return list
}

// temp returns the index of the added local of a type.
func (f *function) temp(t byte) uint32 {
	return uint32(f.locals + bytes.IndexByte(f.temps(), t))
}
