package meter

// open handles block, loop and if.
func (a *analyser) open(op byte) error {
	params, results, err := a.blockType()
	if err != nil {
		return err
	}
	a.f.effort.labels++
	a.f.effort.branches(1, params+results)
	if op == opLoop {
		a.f.effort.loops++
	}
	if op == opIf {
		a.charge(1)
		a.pop(1)
	}
	a.pop(params)
	a.frames = append(a.frames, frame{op: op, base: a.height, params: params, results: results})
	a.push(params)
	switch op {
	case opLoop:
		a.block(true)
	case opIf:
		a.block(false)
	}
	return nil
}

// blockType reads the type of a block, which is one value type, nothing, or an index.
func (a *analyser) blockType() (params, results int, err error) {
	t := a.r.signed(33)
	switch {
	case a.r.err != nil:
		return 0, 0, a.r.err
	case t == blockEmpty-0x80:
		return 0, 0, nil
	case t < 0:
		if !known(byte(t + 0x80)) {
			return 0, 0, unsupported("a block of type %#x", byte(t+0x80))
		}
		return 0, 1, nil
	case t >= int64(a.m.ownTypes):
		return 0, 0, malformed("a block has type %d of %d", t, a.m.ownTypes)
	}
	return len(a.m.types[t].params), len(a.m.types[t].results), nil
}

func (a *analyser) otherwise() error {
	top := &a.frames[len(a.frames)-1]
	if top.op != opIf {
		return malformed("else without if")
	}
	top.op = opElse
	a.height = top.base
	a.push(top.params)
	a.block(false)
	return nil
}

// close handles an end. A new basic block begins after it if there are two ways to get there.
func (a *analyser) close() {
	top := a.frames[len(a.frames)-1]
	a.frames = a.frames[:len(a.frames)-1]
	if len(a.frames) == 0 {
		return
	}
	a.height = top.base
	a.push(top.results)
	if top.targeted && top.op != opLoop || top.op == opIf || top.op == opElse {
		a.block(false)
	}
}

// branch handles the branches; compared reports whether the last instruction was a comparison.
func (a *analyser) branch(op byte, at int, compared bool) error {
	a.charge(1)
	switch op {
	case opReturn:
		a.frames[0].targeted = true
		a.edit(editReturn, at, uint32(len(a.frames)-1))
	case opBrTable:
		a.pop(1)
		for range a.r.count() {
			if err := a.target(a.r.u32()); err != nil {
				return err
			}
		}
		if err := a.target(a.r.u32()); err != nil {
			return err
		}
	default:
		if op == opBrIf {
			a.pop(1)
		}
		label := a.r.u32()
		if err := a.target(label); err != nil {
			return err
		}
		if op == opBrIf && compared && a.takes(label) == 0 {
			a.branchIf(at, label)
		}
	}
	a.block(false)
	return a.r.err
}

// branchIf replaces a br_if by a branch in an if, which does the same. The compiler translates a comparison and a br_if to a label with several
// predecessors into five instructions, but a comparison and an if always into two. The gain is about the cost of the meter.
func (a *analyser) branchIf(at int, label uint32) {
	a.f.effort.branches(blocksIf, 0)
	a.edit(editBranchIf, at, label+1)
}

func (a *analyser) target(label uint32) error {
	if int64(label) >= int64(len(a.frames)) {
		return malformed("branch to label %d of %d", label, len(a.frames))
	}
	a.frames[len(a.frames)-1-int(label)].targeted = true
	a.f.effort.branches(1, a.takes(label))
	return nil
}

// takes returns the number of values that a branch to a label passes on.
func (a *analyser) takes(label uint32) int {
	to := a.frames[len(a.frames)-1-int(label)]
	if to.op == opLoop {
		return to.params
	}
	return to.results
}

func (a *analyser) call(at int) error {
	f := a.r.u32()
	if int64(f) >= int64(len(a.m.funcs)) {
		return malformed("call of function %d of %d", f, len(a.m.funcs))
	}
	if int(f) >= len(a.m.imports) {
		a.f.calls = true
	}
	t := a.m.types[a.m.funcs[f]]
	a.charge(costCall)
	a.f.effort.traffic += trafficCall + len(t.params) + len(t.results)
	a.pop(len(t.params))
	a.push(len(t.results))
	a.edit(editCall, at+1, f)
	return a.r.err
}

func (a *analyser) callIndirect() error {
	typ, table := a.r.u32(), a.r.u32()
	if int64(typ) >= int64(a.m.ownTypes) || int64(table) >= int64(len(a.m.tables)) {
		return malformed("indirect call with type %d through table %d", typ, table)
	}
	a.f.calls = true
	a.f.indirect = append(a.f.indirect, typ)
	t := a.m.types[typ]
	a.charge(costIndirect)
	a.f.effort.traffic += trafficIndirect + len(t.params) + len(t.results)
	a.pop(1 + len(t.params))
	a.push(len(t.results))
	return a.r.err
}
