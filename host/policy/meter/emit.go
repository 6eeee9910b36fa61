package meter

import "fmt"

// code writes the code section.
func (w *rewriter) code() ([]byte, error) {
	b := appendU32(nil, uint32(len(w.bodies)))
	var body []byte
	traffic := 0
	for i, original := range w.bodies {
		f, err := w.analyse(w.types[w.funcs[len(w.imports)+i]], original)
		if err != nil {
			return nil, fmt.Errorf("function %d: %w", len(w.imports)+i, err)
		}
		if traffic += f.effort.traffic; traffic > MaxModuleTraffic {
			return nil, over("values passed by calls and branches", traffic, MaxModuleTraffic)
		}
		first := len(w.blocks)
		body = w.emit(body[:0], f, original)
		w.place(first, i)
		b = appendBytes(b, body)
	}
	return b, nil
}

// emit writes one body: the original with its edits.
func (w *rewriter) emit(b []byte, f *function, original []byte) []byte {
	temps := f.temps()
	b = append(appendU32(b, f.declCount+uint32(len(temps))), f.localDecl...)
	for _, t := range temps {
		b = append(b, 1, t)
	}
	at := f.codeAt
	for _, e := range f.edits {
		b = append(b, original[at:e.at]...)
		b = w.apply(b, f, e)
		at = e.at + e.skip
	}
	return append(b, original[at:]...)
}

func (w *rewriter) apply(b []byte, f *function, e edit) []byte {
	switch e.kind {
	case editCharge:
		return w.emitCharge(b, e)
	case editProlog:
		b = w.add(b, w.depth, -f.weight())
		b = w.emitCheck(b, w.depth, w.deep)
		b = append(b, opBlock)
		return w.resultType(b, f.typ.results)
	case editEpilog:
		return w.add(append(b, opEnd), w.depth, f.weight())
	case editReturn:
		return appendU32(append(b, opBr), e.arg)
	case editBranchIf:
		b = append(b, opIf, blockEmpty, opBr)
		return append(appendU32(b, e.arg), opEnd)
	case editCall:
		return appendU32(b, w.moved(e.arg))
	case editGrow:
		return appendU32(append(b, opCall), w.grow)
	case editRange:
		return w.emitRange(b, f.temp(typeI32), e.arg)
	case editNaN:
		return emitNaN(b, f.temp(byte(e.arg)), byte(e.arg))
	}
	return b
}

func (w *rewriter) emitCharge(b []byte, e edit) []byte {
	if e.cost == 0 && !e.check {
		return b
	}
	b = w.add(b, w.fuel, -max(e.cost, 1))
	if e.check {
		b = w.emitCheck(b, w.fuel, w.tick)
	}
	if w.options.Count {
		b = w.emitCount(b, e)
	}
	return b
}

// add changes a global by a constant.
func (w *rewriter) add(b []byte, global uint32, delta int64) []byte {
	b = appendU32(append(b, opGlobalGet), global)
	if delta < 0 {
		b = append(appendSigned(append(b, opI64Const), -delta), opI64Sub)
	} else {
		b = append(appendSigned(append(b, opI64Const), delta), opI64Add)
	}
	return appendU32(append(b, opGlobalSet), global)
}

// emitCheck calls a function of the host when the global is below zero.
func (w *rewriter) emitCheck(b []byte, global, function uint32) []byte {
	b = appendU32(append(b, opGlobalGet), global)
	b = append(b, opI64Const, 0, opI64LtS, opIf, blockEmpty)
	b = appendU32(append(b, opCall), function)
	return append(b, opEnd)
}

// emitRange charges for the length on top of the stack.
func (w *rewriter) emitRange(b []byte, temp, shift uint32) []byte {
	b = appendU32(append(b, opLocalSet), temp)
	b = appendU32(append(b, opGlobalGet), w.fuel)
	b = appendU32(append(b, opLocalGet), temp)
	b = append(b, opI64ExtendU, opI64Const, byte(shift), opI64ShrU, opI64Sub)
	b = appendU32(append(b, opGlobalSet), w.fuel)
	b = w.emitCheck(b, w.fuel, w.tick)
	return appendU32(append(b, opLocalGet), temp)
}

// resultType appends the type of a block with no parameters and a function's results.
func (w *rewriter) resultType(b, results []byte) []byte {
	switch len(results) {
	case 0:
		return append(b, blockEmpty)
	case 1:
		return append(b, results[0])
	}
	return appendSigned(b, int64(w.typeIndex(functype{results: results})))
}

// weight returns what one active call takes from the depth. A frame of the compiled code has locals, operands
// and spilled values, whose number grows with the code.
func (f *function) weight() int64 {
	return 1 + int64(f.locals+f.height)/64 + int64(f.size)/4096
}
