package policy

import "github.com/flynnhost/flynn/sdk/policy/abi"

// frame reads the host's table of facts. Every offset is checked when it is used: a wrong frame has
// missing facts, and never a read outside of it. The zero frame has no facts.
type frame struct {
	bytes []byte
	count uint32
}

// openFrame accepts the bytes as a frame of the given kind.
func openFrame(b []byte, kind uint32) (frame, bool) {
	if len(b) < abi.HeaderSize || load32(b, 0) != abi.Magic {
		return frame{}, false
	}
	head := load32(b, 4)
	count, total := head>>16, load32(b, 8)
	if head&0xffff != kind || uint64(total) > uint64(len(b)) || abi.HeaderSize+count*abi.EntrySize > total {
		return frame{}, false
	}
	return frame{b[:total], count}, true
}

// anyType makes find accept a field whatever its type is.
const anyType = 0

// find returns the bytes of a field of the given type.
//
// Ids are sorted, unique and start at 1, so that id n cannot stand behind entry n: the search begins
// there and goes backwards, and finds a field of a full frame at once.
func (f frame) find(id abi.Field, typ uint32) ([]byte, bool) {
	for i := min(uint32(id), f.count); i > 0; i-- {
		entry := abi.HeaderSize + (i-1)*abi.EntrySize
		head := load32(f.bytes, entry)
		if head&0xffff > uint32(id) {
			continue
		}
		if head&0xffff != uint32(id) || (typ != anyType && head>>16 != typ) {
			return nil, false
		}
		off, n := uint64(load32(f.bytes, entry+4)), uint64(load32(f.bytes, entry+8))
		if off+n > uint64(len(f.bytes)) {
			return nil, false
		}
		return f.bytes[off : off+n], true
	}
	return nil, false
}

func (f frame) has(id abi.Field) bool {
	_, ok := f.find(id, anyType)
	return ok
}

func (f frame) str(id abi.Field) string {
	b, _ := f.find(id, abi.TypeString)
	return view(b)
}

func (f frame) integer(id abi.Field) int64 {
	b, _ := f.find(id, abi.TypeInt)
	if len(b) != 8 {
		return 0
	}
	return int64(load32(b, 0)) | int64(load32(b, 4))<<32
}

func (f frame) boolean(id abi.Field) bool {
	b, _ := f.find(id, abi.TypeBool)
	return len(b) == 1 && b[0] == 1
}

func (f frame) list(id abi.Field) List {
	b, _ := f.find(id, abi.TypeList)
	return List{b}
}
