package verify

import (
	"encoding/binary"

	"github.com/flynnhost/flynn/host/policy/meter"
)

// parsed is the part of a module that the checks need.
type parsed struct {
	imported         int // functions
	tick, deep, grow int
	count            int // -1 where blocks are not counted
	fuel, depth      int
	referenced       []int // functions that are exported, started or in a table
	bodies           [][]byte
	scratch          []instruction
}

// cursor reads bytes and panics with a fault at their end.
type cursor []byte

func (c *cursor) take(n uint64) cursor {
	if n > uint64(len(*c)) {
		failf("the module ends too early")
	}
	head := (*c)[:n]
	*c = (*c)[n:]
	return head
}

func (c *cursor) octet() byte { return c.take(1)[0] }

func (c *cursor) unsigned() uint64 {
	v, n := binary.Uvarint(*c)
	if n <= 0 || n > 5 || v > 1<<32-1 {
		failf("a number is malformed")
	}
	c.take(uint64(n))
	return v
}

// integer reads a signed number of any length up to 64 bits.
func (c *cursor) integer() int64 {
	var v uint64
	for shift := uint(0); shift < 70; shift += 7 {
		b := c.octet()
		v |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			if b&0x40 != 0 && shift+7 < 64 {
				v |= ^uint64(0) << (shift + 7)
			}
			return int64(v)
		}
	}
	failf("a number is malformed")
	return 0
}

func (c *cursor) vector(each func()) {
	for n := c.unsigned(); n > 0; n-- {
		each()
	}
}

func (c *cursor) text() string { return string(c.take(c.unsigned())) }

func parse(wasm []byte) *parsed {
	m := &parsed{tick: -1, deep: -1, grow: -1, count: -1, fuel: -1, depth: -1}
	c := cursor(wasm)
	c.take(8)
	for len(c) > 0 {
		id := c.octet()
		s := c.take(c.unsigned())
		switch id {
		case 2:
			s.vector(func() { m.parseImport(&s) })
		case 7:
			s.vector(func() { m.parseExport(&s) })
		case 8:
			m.referenced = append(m.referenced, int(s.unsigned()))
		case 6:
			s.vector(func() { s.take(2); m.parseConstant(&s) })
		case 9:
			s.vector(func() { m.parseElement(&s) })
		case 10:
			s.vector(func() { m.bodies = append(m.bodies, s.take(s.unsigned())) })
		}
	}
	return m
}

func (m *parsed) parseImport(s *cursor) {
	module, name := s.text(), s.text()
	if s.octet() != 0 {
		failf("the import %s.%s is no function", module, name)
	}
	s.unsigned()
	if module == meter.ImportModule {
		switch name {
		case meter.TickImport:
			m.tick = m.imported
		case meter.DeepImport:
			m.deep = m.imported
		case meter.GrowImport:
			m.grow = m.imported
		}
	}
	if module == meter.CountModule && name == meter.CountImport {
		m.count = m.imported
	}
	m.imported++
}

func (m *parsed) parseExport(s *cursor) {
	name, kind, index := s.text(), s.octet(), int(s.unsigned())
	switch {
	case kind == 0:
		m.referenced = append(m.referenced, index)
	case kind == 3 && name == meter.FuelGlobal:
		m.fuel = index
	case kind == 3 && name == meter.DepthGlobal:
		m.depth = index
	}
}

func (m *parsed) parseConstant(s *cursor) {
	for {
		switch op := s.octet(); op {
		case 0x0b:
			return
		case 0x41, 0x42:
			s.integer()
		case 0x43:
			s.take(4)
		case 0x44:
			s.take(8)
		case 0xd0:
			s.octet()
		case 0xd2:
			m.referenced = append(m.referenced, int(s.unsigned()))
		default:
			failf("unknown constant instruction %#x", op)
		}
	}
}

func (m *parsed) parseElement(s *cursor) {
	form := s.unsigned()
	passive, indexed, expressions := form&1 != 0, form&2 != 0, form&4 != 0
	if !passive {
		if indexed {
			s.unsigned()
		}
		m.parseConstant(s)
	}
	if passive || indexed {
		s.octet()
	}
	s.vector(func() {
		if expressions {
			m.parseConstant(s)
		} else {
			m.referenced = append(m.referenced, int(s.unsigned()))
		}
	})
}
