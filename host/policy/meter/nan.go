package meter

import "bytes"

// The specification leaves sign and payload of a NaN that arithmetic makes to the machine, and machines differ: a module could tell
// one from the other by storing the NaN, and answer otherwise. So behind each instruction that can make one, any NaN is replaced by the one
// that the specification calls canonical, with its sign clear, which it always allows. Instructions that only move bits keep them.

// costNaN is how many instructions that takes.
const costNaN = 6

// makesNaN tells of the type that the instruction may leave a NaN of, or 0.
func makesNaN(op byte) byte {
	switch {
	case op >= 0x8d && op <= 0x97, op == 0xb6: // ceil to max, demote
		return typeF32
	case op >= 0x9b && op <= 0xa5, op == 0xbb: // ceil to max, promote
		return typeF64
	}
	return 0
}

// canonical pays for the replacement behind an instruction that may make a NaN.
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

// temps are the types of those that this function needs, which lie behind its own locals.
func (f *function) temps() []byte {
	var list []byte
	for k, needed := range f.needs {
		if needed {
			list = append(list, tempTypes[k])
		}
	}
	return list
}

// temp is the local of a type.
func (f *function) temp(t byte) uint32 {
	return uint32(f.locals + bytes.IndexByte(f.temps(), t))
}
