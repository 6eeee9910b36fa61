package meter

// editKind says what the rewriter does at one place of a function.
type editKind uint8

const (
	editCharge   editKind = iota // insert a charge; of no cost it is left out, unless it checks
	editProlog                   // insert the depth guard and open the block that stands for the function's own label
	editEpilog                   // close that block and give the depth back
	editReturn                   // replace a return by a branch to the end of that block
	editBranchIf                 // replace a br_if by a branch in an if
	editCall                     // replace the index of a called or referenced function
	editGrow                     // replace memory.grow by a call of the host
	editRange                    // insert a charge for the length of a range
	editNaN                      // give a NaN the same bits on every machine
	editNothing                  // an edit that turned out not to be needed
)

type edit struct {
	kind  editKind
	check bool  // of editCharge
	cost  int64 // of editCharge
	at    int   // offset in the body
	skip  int   // bytes of the original to leave out
	arg   uint32
}

// function is what analyse finds out about a body.
type function struct {
	typ       functype
	localDecl []byte // declarations without their count
	declCount uint32
	locals    int // parameters included
	codeAt    int
	edits     []edit
	needs     [3]bool  // locals of the rewriter's own, by tempTypes
	calls     bool     // functions of the module, directly or through a table
	indirect  []uint32 // types of the calls through a table
	height    int      // of the operand stack, at most
	size      int      // of the body
	effort    effort
}

// frame is one open block.
type frame struct {
	op              byte
	targeted        bool // by a branch to its end
	base            int  // height of the operand stack below its parameters
	params, results int
}

// analyser walks one body. The first failure sticks in its reader.
type analyser struct {
	m        *rewriter
	r        *reader
	f        *function
	frames   []frame
	height   int
	charged  int  // the edit that charges for the basic block
	compared bool // the last instruction was a comparison
}

func (w *rewriter) analyse(typ functype, body []byte) (*function, error) {
	a := &analyser{m: w, r: &reader{data: body}, f: &function{typ: typ, locals: len(typ.params), size: len(body)}}
	if err := a.declarations(); err != nil {
		return nil, err
	}
	a.f.codeAt = a.r.at
	a.frames = append(a.frames, frame{op: opBlock, results: len(typ.results)})
	a.block(true)
	prolog := len(a.f.edits)
	a.f.edits = append(a.f.edits, edit{kind: editNothing, at: a.r.at})
	for len(a.frames) > 0 && a.r.err == nil {
		if err := a.step(); err != nil {
			return nil, err
		}
	}
	if a.r.err != nil {
		return nil, a.r.err
	}
	if !a.r.done() {
		return nil, malformed("instructions behind the end of a function")
	}
	if a.f.calls {
		a.f.edits[prolog].kind = editProlog
		a.f.edits = append(a.f.edits, edit{kind: editEpilog, at: len(body) - 1})
	} else {
		a.keepReturns()
	}
	return a.f, a.f.effort.check(a.f.locals + a.f.height)
}

// keepReturns leaves the returns of a function without a guard as they are.
func (a *analyser) keepReturns() {
	for i := range a.f.edits {
		if e := &a.f.edits[i]; e.kind == editReturn {
			*e = edit{kind: editNothing, at: e.at}
		}
	}
}

func (a *analyser) declarations() error {
	n := a.r.count()
	begin := a.r.at
	for range n {
		count := a.r.u32()
		t := a.r.byte()
		if a.r.err != nil {
			return a.r.err
		}
		if !known(t) {
			return unsupported("a local of type %#x", t)
		}
		if int64(a.f.locals)+int64(count) > MaxLocals {
			return over("locals of one function", a.f.locals+int(min(count, MaxLocals)), MaxLocals)
		}
		a.f.locals += int(count)
	}
	a.f.declCount, a.f.localDecl = uint32(n), a.r.data[begin:a.r.at]
	return nil
}

// block begins a basic block where the reader is.
func (a *analyser) block(check bool) {
	e := edit{kind: editCharge, at: a.r.at, check: check}
	last := len(a.f.edits) - 1
	if last >= 0 && last == a.charged && a.f.edits[last].cost == 0 && !a.f.edits[last].check {
		a.f.edits[last] = e // nothing was done since
		return
	}
	a.f.edits = append(a.f.edits, e)
	a.charged = last + 1
}

// charge adds to the cost of the basic block.
func (a *analyser) charge(cost int64) { a.f.edits[a.charged].cost += cost }

func (a *analyser) edit(kind editKind, at int, arg uint32) {
	a.f.edits = append(a.f.edits, edit{kind: kind, at: at, skip: a.r.at - at, arg: arg})
}

func (a *analyser) pop(n int) {
	a.height = max(a.height-n, a.frames[len(a.frames)-1].base)
}

func (a *analyser) push(n int) {
	a.height += n
	a.f.height = max(a.f.height, a.height)
}

func (a *analyser) step() error {
	at := a.r.at
	a.f.effort.instructions++
	op := a.r.byte()
	behind := a.compared
	a.compared = compares(op)
	switch op {
	case opBlock, opLoop, opIf:
		return a.open(op)
	case opElse:
		return a.otherwise()
	case opEnd:
		a.close()
	case opUnreachable:
		a.charge(1)
		a.block(false)
	case opBr, opBrIf, opBrTable, opReturn:
		return a.branch(op, at, behind)
	case opCall:
		return a.call(at)
	case opCallIndirect:
		return a.callIndirect()
	case opMemoryGrow:
		if a.r.byte() != 0 {
			return unsupported("several memories")
		}
		if a.m.memory == nil {
			return malformed("memory.grow without a memory")
		}
		a.charge(costBulk)
		a.f.effort.traffic += trafficCall
		a.edit(editGrow, at, 0)
	case opPrefixFC:
		return a.prefixed(at)
	case opRefFunc:
		f := a.r.u32()
		if int64(f) >= int64(len(a.m.funcs)) {
			return malformed("reference to function %d of %d", f, len(a.m.funcs))
		}
		a.charge(1)
		a.push(1)
		a.edit(editCall, at+1, f)
	case opNop:
	default:
		a.charge(costOf(op))
		return a.plain(op)
	}
	return a.r.err
}

// plain are the instructions that stay as they are.
func (a *analyser) plain(op byte) error {
	switch {
	case op == opDrop:
		a.pop(1)
	case op == opSelect:
		a.pop(3)
		a.push(1)
	case op == opSelectT:
		a.r.valtypes()
		a.pop(3)
		a.push(1)
	case op >= opLocalGet && op <= opLocalTee:
		return a.local(op)
	case op == opGlobalGet || op == opGlobalSet:
		return a.global(op)
	case op == opTableGet || op == opTableSet:
		if a.r.u32(); op == opTableSet {
			a.pop(2)
			a.m.hide("table.set")
		}
	case op >= 0x28 && op <= 0x3e:
		a.r.u32()
		a.r.u32()
		a.apply(op)
	case op == opMemorySize:
		a.r.byte()
		a.push(1)
	case op == opI32Const:
		a.r.signed(32)
		a.push(1)
	case op == opI64Const:
		a.r.signed(64)
		a.push(1)
	case op == opF32Const:
		a.r.bytes(4)
		a.push(1)
	case op == opF64Const:
		a.r.bytes(8)
		a.push(1)
	case op >= 0x45 && op <= 0xc4:
		a.apply(op)
		a.canonical(op)
	case op == opRefNull:
		a.r.byte()
		a.push(1)
	case op == opRefIsNull:
	default:
		return unsupported("instruction %#x", op)
	}
	if float(op) {
		a.m.floats = true
	}
	return a.r.err
}

func (a *analyser) apply(op byte) {
	e := effectOf(op)
	a.pop(int(e.pops))
	a.push(int(e.pushes))
}

func (a *analyser) local(op byte) error {
	if i := a.r.u32(); int64(i) >= int64(a.f.locals) {
		return malformed("local %d of %d", i, a.f.locals)
	}
	switch op {
	case opLocalGet:
		a.push(1)
	case opLocalSet:
		a.pop(1)
	}
	return a.r.err
}

func (a *analyser) global(op byte) error {
	if i := a.r.u32(); int64(i) >= int64(len(a.m.globals)) {
		return malformed("global %d of %d", i, len(a.m.globals))
	}
	if op == opGlobalGet {
		a.push(1)
	} else {
		a.pop(1)
	}
	return a.r.err
}

// prefixed are the instructions behind 0xfc.
func (a *analyser) prefixed(at int) error {
	switch op := a.r.u32(); {
	case a.r.err != nil:
		return a.r.err
	case op <= fcTruncLast:
		a.charge(1)
		return nil
	case op == fcDataDrop || op == fcElemDrop:
		a.r.u32()
		a.charge(1)
		a.m.hide(map[bool]string{true: "data.drop", false: "elem.drop"}[op == fcDataDrop])
		a.m.segments = true
		return a.r.err
	case op == fcTableSize:
		a.r.u32()
		a.charge(1)
		a.push(1)
		return a.r.err
	case op <= fcTableFill:
		return a.bulk(op, at)
	default:
		return unsupported("instruction 0xfc %d", op)
	}
}

// bulk are the instructions whose last operand is a length.
func (a *analyser) bulk(op uint32, at int) error {
	shift := uint32(bulkShift)
	if op >= fcTableInit {
		shift = 0
		a.m.hide(map[uint32]string{fcTableInit: "table.init", fcTableCopy: "table.copy", fcTableGrow: "table.grow", fcTableFill: "table.fill"}[op])
	}
	a.r.u32()
	if op != fcMemoryFill && op != fcTableGrow && op != fcTableFill {
		a.r.u32()
	}
	if op == fcMemoryInit {
		a.m.segments = true
	}
	a.charge(costBulk)
	a.f.effort.branches(blocksBulk, 0)
	a.f.needs[0] = true
	a.f.edits = append(a.f.edits, edit{kind: editRange, at: at, arg: shift})
	if op == fcTableGrow {
		a.pop(2)
		a.push(1)
	} else {
		a.pop(3)
	}
	return a.r.err
}
