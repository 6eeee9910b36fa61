package policy

import (
	"unsafe"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// frame reads the host's table of facts. Every offset is checked when it is used: a malformed frame lacks facts, but never causes a read
// outside of it. The zero frame has no facts.
//
// It is a pointer and two numbers rather than a slice, because a hook passes it along for every fact that it reads, and a Go module spends
// most of its time on calls.
type frame struct {
	base  unsafe.Pointer
	size  uint32
	count uint32
}

// openFrame accepts the bytes as a frame of the given kind.
func openFrame(b []byte, kind uint32) (frame, bool) {
	base := unsafe.Pointer(unsafe.SliceData(b))
	if len(b) < abi.HeaderSize || load32(base, 0) != abi.Magic {
		return frame{}, false
	}
	head := load32(base, 4)
	count, total := head>>16, load32(base, 8)
	if head&0xffff != kind || uint64(total) > uint64(len(b)) || abi.HeaderSize+count*abi.EntrySize > total {
		return frame{}, false
	}
	return frame{base, total, count}, true
}

// anyType makes find accept a field of any type.
const anyType = 0

// find returns the value of a field of the given type.
//
// Ids are sorted, unique and start at 1, so id n cannot come after entry n: the search begins there and goes backwards, and finds a field
// of a full frame at once.
func (f frame) find(id, typ uint32) (string, bool) {
	entry := abi.HeaderSize + min(id, f.count)*abi.EntrySize
	for entry > abi.HeaderSize {
		entry -= abi.EntrySize
		head := load32(f.base, entry)
		if head&0xffff > id {
			continue
		}
		if head&0xffff != id || (typ != anyType && head>>16 != typ) {
			return "", false
		}
		off, n := load32(f.base, entry+4), load32(f.base, entry+8)
		if off > f.size || n > f.size-off {
			return "", false
		}
		return text(unsafe.Add(f.base, off), n), true
	}
	return "", false
}

// text is unsafe.String without its checks, which find has made: they would be the only calls in find, and a Go function without calls is
// several times as fast in WebAssembly.
func text(p unsafe.Pointer, n uint32) (s string) {
	*(*struct {
		data unsafe.Pointer
		len  int
	})(unsafe.Pointer(&s)) = struct {
		data unsafe.Pointer
		len  int
	}{p, int(n)}
	return s
}

func (f frame) has(id abi.Field) bool {
	_, ok := f.find(uint32(id), anyType)
	return ok
}

func (f frame) str(id abi.Field) string {
	s, _ := f.find(uint32(id), abi.TypeString)
	return s
}

func (f frame) integer(id abi.Field) int64 {
	s, _ := f.find(uint32(id), abi.TypeInt)
	if len(s) != 8 {
		return 0
	}
	p := unsafe.Pointer(unsafe.StringData(s))
	return int64(load32(p, 0)) | int64(load32(p, 4))<<32
}

func (f frame) boolean(id abi.Field) bool {
	s, _ := f.find(uint32(id), abi.TypeBool)
	return len(s) == 1 && s[0] == 1
}

func (f frame) list(id abi.Field) List {
	s, _ := f.find(uint32(id), abi.TypeList)
	return List{s}
}
