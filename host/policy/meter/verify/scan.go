package verify

import "encoding/binary"

// opcode is the byte of an instruction, or prefixed plus the number after the prefix.
type opcode uint16

const prefixed opcode = 0xfc00

const (
	opUnreachable  opcode = 0x00
	opNop          opcode = 0x01
	opBlock        opcode = 0x02
	opLoop         opcode = 0x03
	opIf           opcode = 0x04
	opElse         opcode = 0x05
	opEnd          opcode = 0x0b
	opBr           opcode = 0x0c
	opBrIf         opcode = 0x0d
	opBrTable      opcode = 0x0e
	opReturn       opcode = 0x0f
	opCall         opcode = 0x10
	opCallIndirect opcode = 0x11
	opLocalGet     opcode = 0x20
	opLocalSet     opcode = 0x21
	opLocalTee     opcode = 0x22
	opSelect       opcode = 0x1b
	opGlobalGet    opcode = 0x23
	opGlobalSet    opcode = 0x24
	opMemoryGrow   opcode = 0x40
	opI32Const     opcode = 0x41
	opI64Const     opcode = 0x42
	opF32Const     opcode = 0x43
	opF64Const     opcode = 0x44
	opI64LtS       opcode = 0x53
	opF32Eq        opcode = 0x5b
	opF64Eq        opcode = 0x61
	opI64Add       opcode = 0x7c
	opI64Sub       opcode = 0x7d
	opI64ShrU      opcode = 0x88
	opI64ExtendU   opcode = 0xad
	opRefFunc      opcode = 0xd2

	emptyType = -0x40
)

// isMemoryRange reports whether the instruction is memory.init, memory.copy or memory.fill.
func (o opcode) isMemoryRange() bool { return o == prefixed+8 || o == prefixed+10 || o == prefixed+11 }

// isTableRange reports whether the instruction is table.init, table.copy, table.grow or table.fill.
func (o opcode) isTableRange() bool {
	return o == prefixed+12 || o == prefixed+14 || o == prefixed+15 || o == prefixed+17
}

// instruction is one instruction with its first immediate.
type instruction struct {
	op      opcode
	a       int64
	targets []uint32 // of br_table
}

func (in instruction) is(op opcode, a int) bool { return in.op == op && in.a == int64(a) }

// scan reads the instructions of a body. The result is valid until the next scan.
func (m *parsed) scan(body cursor) []instruction {
	body.vector(func() { body.unsigned(); body.octet() }) // locals
	code := m.scratch[:0]
	for len(body) > 0 {
		code = append(code, body.instruction())
	}
	m.scratch = code
	return code
}

func (c *cursor) instruction() instruction {
	in := instruction{op: opcode(c.octet())}
	switch o := in.op; {
	case o >= 0x02 && o <= 0x04: // block, loop, if
		in.a = c.integer()
	case o == opBr, o == opBrIf, o == opCall, o >= 0x20 && o <= 0x26, o == opRefFunc:
		in.a = int64(c.unsigned())
	case o == opBrTable:
		c.vector(func() { in.targets = append(in.targets, uint32(c.unsigned())) })
		in.targets = append(in.targets, uint32(c.unsigned()))
	case o == opCallIndirect, o >= 0x28 && o <= 0x3e: // and loads and stores
		in.a = int64(c.unsigned())
		c.unsigned()
	case o == 0x1c: // select with types
		c.vector(func() { c.octet() })
	case o == 0x3f, o == opMemoryGrow, o == 0xd0: // memory.size, ref.null
		c.octet()
	case o == 0x41, o == opI64Const:
		in.a = c.integer()
	case o == opF32Const:
		in.a = int64(binary.LittleEndian.Uint32(c.take(4)))
	case o == opF64Const:
		in.a = int64(binary.LittleEndian.Uint64(c.take(8)))
	case o == 0xfc:
		in.op = prefixed + opcode(c.unsigned())
		c.prefixed(in.op)
	case o <= 0x01, o == opElse, o == opEnd, o == opReturn, o == 0x1a, o == 0x1b, o >= 0x45 && o <= 0xc4, o == 0xd1:
	default:
		failf("unknown instruction %#x", int(o))
	}
	return in
}

// prefixed reads the immediates of an instruction with the prefix 0xfc.
func (c *cursor) prefixed(o opcode) {
	switch n := o - prefixed; {
	case n <= 7:
	case n == 8, n == 10, n == 12, n == 14:
		c.unsigned()
		c.unsigned()
	case n <= 17:
		c.unsigned()
	default:
		failf("unknown instruction 0xfc %d", int(n))
	}
}
