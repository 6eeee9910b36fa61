package meter

import "slices"

// element is an element segment.
type element struct {
	flags  uint32
	table  uint32
	offset []byte   // constant expression of an active segment
	kind   byte     // element kind or reference type, where the flags have one
	funcs  []uint32 // of the forms that list functions
	exprs  [][]byte // of the forms that list expressions
}

// maxElements bounds the elements of all segments together.
const maxElements = MaxTable * 4

func (m *module) readElements(r *reader) error {
	total := 0
	for range r.count() {
		e := element{flags: r.u32()}
		if e.flags > 7 {
			return malformed("element segment of form %d", e.flags)
		}
		if e.flags&1 == 0 {
			if e.flags&2 != 0 {
				e.table = r.u32()
			}
			e.offset = r.constant(m)
		}
		if e.flags&3 != 0 {
			e.kind = r.byte()
		}
		n := r.count()
		if total += n; total > maxElements {
			return over("elements in segments", total, maxElements)
		}
		for range n {
			if e.flags&4 != 0 {
				e.exprs = append(e.exprs, r.constant(m))
				continue
			}
			f := r.u32()
			if int64(f) >= int64(len(m.funcs)) && r.err == nil {
				return malformed("element segment names function %d of %d", f, len(m.funcs))
			}
			e.funcs = append(e.funcs, f)
		}
		m.elements = append(m.elements, e)
	}
	return nil
}

// checkElements refuses an active segment outside of its table, which the runtime would silently ignore.
func (m *module) checkElements() error {
	for i, e := range m.elements {
		if e.flags&1 != 0 {
			continue
		}
		if int64(e.table) >= int64(len(m.tables)) {
			return malformed("element segment %d is for table %d of %d", i, e.table, len(m.tables))
		}
		offset := &reader{data: e.offset}
		if offset.byte() != opI32Const {
			return malformed("the offset of element segment %d is no i32.const", i)
		}
		at, n := uint32(offset.signed(32)), len(e.funcs)+len(e.exprs)
		if size := m.tables[e.table].limits.min; int64(at)+int64(n) > int64(size) {
			return malformed("element segment %d has %d elements at %d of a table of %d", i, n, at, size)
		}
	}
	return nil
}

// segment is a data segment.
type segment struct {
	passive bool
	offset  uint32 // of an active one
	data    []byte
}

func (m *module) readData(r *reader) error {
	for range r.count() {
		var s segment
		switch form := r.u32(); form {
		case 0:
		case 1:
			s.passive = true
		case 2:
			if r.u32() != 0 {
				return unsupported("several memories")
			}
		default:
			return malformed("data segment of form %d", form)
		}
		if !s.passive {
			expr := &reader{data: r.constant(m)}
			if expr.byte() != opI32Const && r.err == nil {
				return malformed("a data segment's offset is no i32.const")
			}
			s.offset = uint32(expr.signed(32))
		}
		s.data = r.bytes(r.count())
		m.data = append(m.data, s)
	}
	return nil
}

// mergeGap is the largest run of zeros that is added to save a segment.
const mergeGap = 4096

// merge joins active segments that follow each other in memory. A Go module has tens of thousands of segments, and each costs two
// allocations per instance. Segments are only reordered if none overlap, and zeros are only added where
// there is no segment; the result is not larger than the memory.
func merge(segments []segment, minBytes uint64) []segment {
	sorted := slices.Clone(segments)
	slices.SortStableFunc(sorted, func(a, b segment) int { return int(int64(a.offset) - int64(b.offset)) })
	end := uint64(0)
	for _, s := range sorted {
		if s.passive || uint64(s.offset) < end {
			return segments
		}
		end = uint64(s.offset) + uint64(len(s.data))
	}
	if end > minBytes {
		return segments // the module will trap when it is instantiated, as it should
	}
	var merged []segment
	for _, s := range sorted {
		if len(s.data) == 0 {
			continue
		}
		if last := len(merged) - 1; last >= 0 {
			gap := int(s.offset) - int(merged[last].offset) - len(merged[last].data)
			if gap <= mergeGap {
				merged[last].data = append(append(merged[last].data, make([]byte, gap)...), s.data...)
				continue
			}
		}
		merged = append(merged, segment{offset: s.offset, data: slices.Clone(s.data)})
	}
	return merged
}
