package meter

// The instructions that the rewriter handles individually.
const (
	opUnreachable  = 0x00
	opNop          = 0x01
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opSelectT      = 0x1c
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI64LtS       = 0x53
	opF32Eq        = 0x5b
	opF64Eq        = 0x61
	opI32Shl       = 0x74
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64ShrU      = 0x88
	opI64ExtendU   = 0xad
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opPrefixFC     = 0xfc

	blockEmpty = 0x40
)

// The instructions behind opPrefixFC.
const (
	fcTruncLast  = 7
	fcMemoryInit = 8
	fcDataDrop   = 9
	fcMemoryCopy = 10
	fcMemoryFill = 11
	fcTableInit  = 12
	fcElemDrop   = 13
	fcTableCopy  = 14
	fcTableGrow  = 15
	fcTableSize  = 16
	fcTableFill  = 17
)

// The costs of instructions, in units of fuel, where they are not 1. The unit is about a third of a nanosecond.
const (
	costCall     = 4
	costIndirect = 6
	costDivide   = 8 // also square roots
	costBulk     = 16

	// bulkShift is the logarithm of the bytes that one unit moves. An element of a table costs one unit.
	bulkShift = 3
)

// effect is the effect of an instruction on the operand stack.
type effect struct{ pops, pushes int8 }

// effectOf returns the effect of a load, a store, or a numeric instruction.
func effectOf(op byte) effect {
	switch {
	case op >= 0x28 && op <= 0x35: // loads
		return effect{1, 1}
	case op >= 0x36 && op <= 0x3e: // stores
		return effect{2, 0}
	case op == 0x45 || op == 0x50: // eqz
		return effect{1, 1}
	case op >= 0x46 && op <= 0x66: // comparisons
		return effect{2, 1}
	case op >= 0x67 && op <= 0x69, op >= 0x79 && op <= 0x7b: // clz, ctz, popcnt
		return effect{1, 1}
	case op >= 0x6a && op <= 0x78, op >= 0x7c && op <= 0x8a: // integer arithmetic
		return effect{2, 1}
	case op >= 0x8b && op <= 0x91, op >= 0x99 && op <= 0x9f: // float, one operand
		return effect{1, 1}
	case op >= 0x92 && op <= 0x98, op >= 0xa0 && op <= 0xa6: // float, two operands
		return effect{2, 1}
	}
	return effect{1, 1} // conversions and sign extensions
}

func costOf(op byte) int64 {
	switch op {
	case 0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82, 0x91, 0x95, 0x9f, 0xa3: // div, rem, sqrt
		return costDivide
	}
	return 1
}

// compares reports whether an instruction is a comparison.
func compares(op byte) bool { return op >= 0x45 && op <= 0x66 }

// float reports whether the result of an instruction may be a float.
func float(op byte) bool {
	return op == 0x2a || op == 0x2b || op == opF32Const || op == opF64Const || op >= 0x8b && op <= 0xa6 || op >= 0xb2 && op <= 0xbb || op == 0xbe || op == 0xbf
}
