// Package verify checks that a metered module cannot escape its meter.
//
// It shares no code with the rewriter of package meter, only the names in their contract, so that it does not repeat a mistake made
// there. Start with Check. It checks that
//
//   - every function begins with a charge of fuel and a check, and so does every loop;
//   - every basic block has been charged at least one unit for each of its instructions before the first of them runs;
//   - a function that calls functions of the module begins by taking from the depth, with a check, and restores it at its only
//     exit;
//   - operations on ranges are charged for the length, and memory.grow does not occur;
//   - a NaN that arithmetic produces is replaced by the canonical one at once;
//   - nothing else touches the two counters or calls the functions behind the checks;
//   - blocks are counted, if at all, after their charge and nowhere else.
//
// It does not check that the module is valid; the compiler does.
package verify

import (
	"fmt"

	"github.com/flynnhost/flynn/host/policy/meter"
)

// Check returns an error for the first place where the module could escape.
func Check(wasm []byte) (err error) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case fault:
			err = fmt.Errorf("verify the metered module: %s", string(f))
		default:
			panic(f)
		}
	}()
	m := parse(wasm)
	m.checkOutside()
	for i, body := range m.bodies {
		c := &checker{m: m, code: m.scan(body), function: m.imported + i}
		c.check()
	}
	return nil
}

// fault is the value of the package's own panics.
type fault string

func failf(format string, args ...any) {
	panic(fault(fmt.Sprintf(format, args...)))
}

// checkOutside checks everything but the code: nothing else may refer to the counters or the host's functions.
func (m *parsed) checkOutside() {
	for what, index := range map[string]int{meter.TickImport: m.tick, meter.DeepImport: m.deep, meter.GrowImport: m.grow} {
		if index < 0 {
			failf("%s is not imported", what)
		}
	}
	if m.fuel < 0 || m.depth < 0 || m.fuel == m.depth {
		failf("a counter is not exported")
	}
	for _, f := range m.referenced {
		if m.isHosts(f) {
			failf("function %d of the host is exported, started or in a table", f)
		}
	}
}

// isHosts reports whether a function is one that only the rewriter's code may call.
func (m *parsed) isHosts(f int) bool {
	return f == m.tick || f == m.deep || f == m.grow || m.count >= 0 && f == m.count
}

// checker walks the instructions of one function.
type checker struct {
	m        *parsed
	code     []instruction
	function int
	at       int
	credit   int64 // instructions that are paid for
	blocks   []block
	guard    int64 // what the function takes from the depth; 0 is none
}

type block struct {
	op       opcode
	targeted bool
}

func (c *checker) failf(format string, args ...any) {
	failf("function %d, instruction %d: %s", c.function, c.at, fmt.Sprintf(format, args...))
}

func (c *checker) check() {
	c.mustCharge("the function's start")
	c.takeDepth()
	c.blocks = append(c.blocks, block{op: opBlock})
	end := len(c.code) - 1
	if c.guard > 0 {
		end -= 4
		c.checkExit(end)
	}
	for c.at < end {
		c.step()
	}
	open := 1
	if c.guard > 0 {
		open = 0 // the guard's block is closed, the function is not
	}
	if c.at != end || len(c.blocks) != open || c.code[len(c.code)-1].op != opEnd {
		c.failf("the function does not end where it should")
	}
}

// takeDepth reads the guard, if there is one. The end of the block that it opens is the function's only exit.
func (c *checker) takeDepth() {
	amount, ok := c.addition(c.at, c.m.depth, opI64Sub)
	if !ok {
		return
	}
	if !c.isCheck(c.at+4, c.m.depth, c.m.deep) || c.get(c.at+10).op != opBlock {
		c.failf("the depth is taken without a check")
	}
	c.guard = amount
	c.at += 11
}

// checkExit checks that the depth is restored between the end of the guard's block and the end of the function.
func (c *checker) checkExit(at int) {
	amount, ok := c.addition(at, c.m.depth, opI64Add)
	if !ok || amount != c.guard {
		c.failf("the depth of %d is not restored at the end", c.guard)
	}
}

// mustCharge checks that there is a charge and a check here, and skips them.
func (c *checker) mustCharge(where string) {
	amount, ok := c.addition(c.at, c.m.fuel, opI64Sub)
	if !ok || !c.isCheck(c.at+4, c.m.fuel, c.m.tick) {
		c.failf("%s is not charged and checked", where)
	}
	c.credit = amount
	c.at += 10
	c.skipCount()
}

// skipCount skips the count of a block, which may only follow its charge.
func (c *checker) skipCount() {
	if c.m.count >= 0 && c.get(c.at).op == opI32Const && c.get(c.at+1).is(opCall, c.m.count) {
		c.at += 2
	}
}

func (c *checker) get(at int) instruction {
	if at < 0 || at >= len(c.code) {
		return instruction{}
	}
	return c.code[at]
}

// addition recognises the change of a counter by a positive constant.
func (c *checker) addition(at, global int, op opcode) (int64, bool) {
	ok := c.get(at).is(opGlobalGet, global) && c.get(at+1).op == opI64Const && c.get(at+1).a > 0 &&
		c.get(at+2).op == op && c.get(at+3).is(opGlobalSet, global)
	return c.get(at + 1).a, ok
}

// isCheck recognises a call of the host for a counter below zero.
func (c *checker) isCheck(at, global, function int) bool {
	return c.get(at).is(opGlobalGet, global) && c.get(at+1).is(opI64Const, 0) && c.get(at+2).op == opI64LtS &&
		c.get(at+3).is(opIf, emptyType) && c.get(at+4).is(opCall, function) && c.get(at+5).op == opEnd
}

// isRange recognises the charge for the length of a range and the operation after it.
func (c *checker) isRange(at int) bool {
	temp := int(c.get(at).a)
	same := c.get(at).op == opLocalSet && c.get(at+2).is(opLocalGet, temp) && c.get(at+14).is(opLocalGet, temp)
	sum := c.get(at+1).is(opGlobalGet, c.m.fuel) && c.get(at+3).op == opI64ExtendU && c.get(at+4).op == opI64Const &&
		c.get(at+5).op == opI64ShrU && c.get(at+6).op == opI64Sub && c.get(at+7).is(opGlobalSet, c.m.fuel)
	if !same || !sum || !c.isCheck(at+8, c.m.fuel, c.m.tick) {
		return false
	}
	shift, op := c.get(at+4).a, c.get(at+15).op
	return op.isMemoryRange() && shift <= 3 && shift >= 0 || op.isTableRange() && shift == 0
}

// isBranchIf recognises a branch in an if, which replaces one br_if to a label outside of that if.
func (c *checker) isBranchIf(at int) bool {
	return c.get(at).is(opIf, emptyType) && c.get(at+1).op == opBr && c.get(at+1).a > 0 && c.get(at+2).op == opEnd
}

func (c *checker) step() {
	if amount, ok := c.addition(c.at, c.m.fuel, opI64Sub); ok {
		c.credit = amount
		c.at += 4
		c.skipCount()
		return
	}
	if c.isRange(c.at) {
		c.pay()
		c.at += 16
		return
	}
	if c.isBranchIf(c.at) {
		c.pay()
		c.target(uint32(c.code[c.at+1].a - 1))
		c.credit = 0
		c.at += 3
		return
	}
	in := c.code[c.at]
	c.refuse(in)
	switch in.op {
	case opNop:
	case opBlock:
		c.blocks = append(c.blocks, block{op: in.op})
	case opLoop:
		c.blocks = append(c.blocks, block{op: in.op})
		c.at++
		c.mustCharge("a loop")
		return
	case opIf:
		c.pay()
		c.blocks = append(c.blocks, block{op: in.op})
		c.credit = 0
	case opElse:
		c.credit = 0
	case opEnd:
		c.close()
	default:
		c.pay()
		c.leave(in)
		c.checkNaN(in.op)
	}
	c.at++
}

// checkNaN checks that a NaN is replaced after an instruction that may produce one: ceil, floor, trunc, nearest, sqrt, add,
// sub, mul, div, min, max, demote and promote.
func (c *checker) checkNaN(op opcode) {
	const canonical32, canonical64 = 0x7fc00000, 0x7ff8 << 48
	bits, constant, equal := int64(canonical32), opF32Const, opF32Eq
	switch op {
	case 0x8d, 0x8e, 0x8f, 0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0xb6:
	case 0x9b, 0x9c, 0x9d, 0x9e, 0x9f, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xbb:
		bits, constant, equal = canonical64, opF64Const, opF64Eq
	default:
		return
	}
	temp := c.get(c.at + 1)
	value := c.get(c.at + 2)
	if temp.op != opLocalTee || value.op != constant || value.a != bits || !c.get(c.at+3).is(opLocalGet, int(temp.a)) ||
		!c.get(c.at+4).is(opLocalGet, int(temp.a)) || c.get(c.at+5).op != equal || c.get(c.at+6).op != opSelect {
		c.failf("a NaN is not replaced by the canonical one")
	}
}

func (c *checker) pay() {
	if c.credit--; c.credit < 0 {
		c.failf("an instruction is not charged")
	}
}

// refuse checks that an instruction is allowed outside of the known sequences.
func (c *checker) refuse(in instruction) {
	switch {
	case (in.op == opGlobalGet || in.op == opGlobalSet) && (int(in.a) == c.m.fuel || int(in.a) == c.m.depth):
		c.failf("a counter is touched outside a charge")
	case in.op == opCall && (int(in.a) == c.m.tick || int(in.a) == c.m.deep || int(in.a) == c.m.count):
		c.failf("the host's check is called outside a check")
	case in.op == opRefFunc && c.m.isHosts(int(in.a)):
		c.failf("a function of the host is referenced")
	case in.op == opMemoryGrow || in.op.isMemoryRange() || in.op.isTableRange():
		c.failf("an operation on a range is not charged by its length")
	case in.op == opReturn && c.guard > 0:
		c.failf("a return does not restore the depth")
	case (in.op == opCall && int(in.a) >= c.m.imported || in.op == opCallIndirect) && c.guard == 0:
		c.failf("a call without a guard of the depth")
	}
}

func (c *checker) close() {
	if len(c.blocks) == 0 {
		c.failf("an end too many")
	}
	top := c.blocks[len(c.blocks)-1]
	c.blocks = c.blocks[:len(c.blocks)-1]
	if top.op == opIf || top.targeted && top.op != opLoop {
		c.credit = 0
	}
}

// leave ends the basic block after an instruction that may branch.
func (c *checker) leave(in instruction) {
	switch in.op {
	case opUnreachable, opReturn:
	case opBr, opBrIf:
		c.target(uint32(in.a))
	case opBrTable:
		for _, label := range in.targets {
			c.target(label)
		}
	default:
		return
	}
	c.credit = 0
}

// target marks the block that a label names. In a guarded function the block of the guard is the outermost that may be left.
func (c *checker) target(label uint32) {
	if int64(label) >= int64(len(c.blocks)) {
		c.failf("a branch leaves the function")
	}
	c.blocks[len(c.blocks)-1-int(label)].targeted = true
}
