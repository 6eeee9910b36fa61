package cover

import (
	"strings"

	"github.com/flynnhost/flynn/host/policy/meter"
)

// More of the instructions that the assembler makes of its own.
const (
	opCallIndirect = 0x11
	opLocalTee     = 0x22
	opGlobalSet    = 0x24
	opI32Eqz       = 0x45
	opPrefix       = 0xfc
)

// encoder knows how Go's assembler writes its instructions. See assemble in cmd/internal/obj/wasm/wasmobj.go.
type encoder map[string]byte

// newEncoder has the instructions that are written as they are, in runs of neighbouring opcodes.
func newEncoder() encoder {
	e := encoder{"UNDEF": opUnreachable, "Not": opI32Eqz}
	for first, names := range map[byte]string{
		0x00: "Unreachable Nop Block Loop If Else",
		0x0b: "End Br BrIf BrTable Return Call CallIndirect",
		0x1a: "Drop Select",
		0x28: "I32Load I64Load F32Load F64Load I32Load8S I32Load8U I32Load16S I32Load16U " +
			"I64Load8S I64Load8U I64Load16S I64Load16U I64Load32S I64Load32U " +
			"I32Store I64Store F32Store F64Store I32Store8 I32Store16 I64Store8 I64Store16 I64Store32 " +
			"CurrentMemory GrowMemory I32Const I64Const F32Const F64Const",
		0x45: "I32Eqz I32Eq I32Ne I32LtS I32LtU I32GtS I32GtU I32LeS I32LeU I32GeS I32GeU " +
			"I64Eqz I64Eq I64Ne I64LtS I64LtU I64GtS I64GtU I64LeS I64LeU I64GeS I64GeU " +
			"F32Eq F32Ne F32Lt F32Gt F32Le F32Ge F64Eq F64Ne F64Lt F64Gt F64Le F64Ge " +
			"I32Clz I32Ctz I32Popcnt I32Add I32Sub I32Mul I32DivS I32DivU I32RemS I32RemU I32And I32Or I32Xor I32Shl I32ShrS I32ShrU I32Rotl I32Rotr " +
			"I64Clz I64Ctz I64Popcnt I64Add I64Sub I64Mul I64DivS I64DivU I64RemS I64RemU I64And I64Or I64Xor I64Shl I64ShrS I64ShrU I64Rotl I64Rotr " +
			"F32Abs F32Neg F32Ceil F32Floor F32Trunc F32Nearest F32Sqrt F32Add F32Sub F32Mul F32Div F32Min F32Max F32Copysign " +
			"F64Abs F64Neg F64Ceil F64Floor F64Trunc F64Nearest F64Sqrt F64Add F64Sub F64Mul F64Div F64Min F64Max F64Copysign " +
			"I32WrapI64 I32TruncF32S I32TruncF32U I32TruncF64S I32TruncF64U I64ExtendI32S I64ExtendI32U " +
			"I64TruncF32S I64TruncF32U I64TruncF64S I64TruncF64U F32ConvertI32S F32ConvertI32U F32ConvertI64S F32ConvertI64U F32DemoteF64 " +
			"F64ConvertI32S F64ConvertI32U F64ConvertI64S F64ConvertI64U F64PromoteF32 " +
			"I32ReinterpretF32 I64ReinterpretF64 F32ReinterpretI32 F64ReinterpretI64 " +
			"I32Extend8S I32Extend16S I64Extend8S I64Extend16S I64Extend32S",
	} {
		for i, name := range strings.Fields(names) {
			e[name] = first + byte(i)
		}
	}
	for _, name := range strings.Fields("I32TruncSatF32S I32TruncSatF32U I32TruncSatF64S I32TruncSatF64U I64TruncSatF32S I64TruncSatF32U " +
		"I64TruncSatF64S I64TruncSatF64U MemoryInit DataDrop MemoryCopy MemoryFill TableInit ElemDrop TableCopy TableGrow TableSize TableFill") {
		e[name] = opPrefix
	}
	return e
}

// opcodes are those of one instruction of the assembler's; nil and true where it leaves nothing in the code. merged says that the next one
// is part of it: what is set and then got is kept with one instruction.
func (e encoder) opcodes(in listed, next string) (ops []byte, merged, known bool) {
	switch in.op {
	case "TEXT", "NOP", "FUNCDATA", "PCDATA":
		return nil, false, true
	case "Get":
		if isGlobal(in.arg) {
			return []byte{opGlobalGet}, false, true
		}
		return []byte{opLocalGet}, false, true // the stack pointer has a copy
	case "Set":
		switch {
		case in.arg == "SP":
			return []byte{opLocalTee, opGlobalSet}, false, true
		case isGlobal(in.arg):
			return []byte{opGlobalSet}, false, true
		case in.arg == next:
			return []byte{opLocalTee}, true, true
		}
		return []byte{opLocalSet}, false, true
	case "Tee":
		return []byte{opLocalTee}, false, true
	case "Call":
		if in.arg != "$" {
			return []byte{opCall, opGlobalGet, opLocalSet}, false, true // the copy of the stack pointer is renewed
		}
	case "CallIndirect":
		return []byte{opCallIndirect, opGlobalGet, opLocalSet}, false, true
	}
	op, known := e[in.op]
	return []byte{op}, false, known
}

// isGlobal knows the registers that are no local variables, but for the stack pointer.
func isGlobal(register string) bool {
	return register == "CTXT" || register == "g" || register == "PAUSE" || strings.HasPrefix(register, "RET")
}

// align gives each instruction of a function its line: that of the assembler's instruction that it was made of. Both lists have to be the
// same function, opcode by opcode.
func (e encoder) align(list []listed, code []meter.Instruction) ([]position, bool) {
	lines := make([]position, 0, len(code))
	take := func(p position, ops ...byte) bool {
		for _, op := range ops {
			if len(lines) == len(code) || code[len(lines)].Op != op {
				return false
			}
			lines = append(lines, p)
		}
		return true
	}
	if !take(position{}, opGlobalGet, opLocalSet) { // the copy of the stack pointer
		return nil, false
	}
	for len(list) > 0 {
		in, next := list[0], ""
		if list = list[1:]; len(list) > 0 && list[0].op == "Get" {
			next = list[0].arg
		}
		ops, merged, known := e.opcodes(in, next)
		if !known || !take(in.position, ops...) {
			return nil, false
		}
		if merged {
			list = list[1:]
		}
	}
	return lines, take(position{}, opEnd) && len(lines) == len(code)
}
