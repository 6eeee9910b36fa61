package policy

import (
	"encoding/binary"

	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// The costs of host calls, in units of fuel.
const (
	costHostCall = 150 // the way out of the module and back
	bytesPerUnit = 8   // of copying
)

// Bounds of the host calls of a decision, in bytes.
const (
	maxKey   = 8 << 10  // of one pointer or key
	maxNoted = 16 << 20 // of all recorded calls with their results
)

const absent = -1

// countCall begins every call of flynn1.
func (i *instance) countCall() {
	i.hostCalls++
	if i.hostCalls > i.module.limits.HostCalls {
		i.abort(failf(ClassCalls, "more than %d host calls", i.module.limits.HostCalls))
	}
	i.pay(costHostCall)
}

// read returns a view of the module's memory, valid until the module continues. A pointer outside memory is a trap.
func (i *instance) read(at, size uint64) []byte {
	b, ok := i.memory.Read(uint32(at), uint32(size))
	if !ok {
		i.abort(failf(ClassTrap, "a host call with %d bytes at %d, outside memory", uint32(size), uint32(at)))
	}
	i.pay(int64(len(b)) / bytesPerUnit)
	return b
}

// give writes a value into (buf, cap) if it fits, and returns its length. It records the call.
func (i *instance) give(name string, args []byte, v []byte, ok bool, buf, size uint64) uint64 {
	ret := int32(absent)
	if !ok {
		v = nil
	} else {
		ret = int32(len(v))
		i.pay(int64(len(v)) / bytesPerUnit) // even if it does not fit, because it is recorded
		if len(v) <= int(uint32(size)) && !i.memory.Write(uint32(buf), v) {
			i.abort(failf(ClassTrap, "%s into %d bytes at %d, outside memory", name, uint32(size), uint32(buf)))
		}
	}
	i.note(HostCall{Name: name, Args: args, Ret: ret, Data: v})
	return uint64(uint32(ret))
}

// note adds a call to the record, whose size is bounded. The call must own both slices.
func (i *instance) note(c HostCall) {
	if i.noted += len(c.Args) + len(c.Data); i.noted > maxNoted {
		i.abort(failf(ClassCalls, "host calls with more than %d bytes", maxNoted))
	}
	i.calls = append(i.calls, c)
}

// key reads the pointer or key that a call asks for.
func (i *instance) key(at, size uint64) string {
	if uint32(size) > maxKey {
		i.abort(failf(ClassTrap, "a host call with a key of %d bytes, at most %d are allowed", uint32(size), maxKey))
	}
	return string(i.read(at, size))
}

func words(v ...uint64) []byte {
	b := make([]byte, 0, 4*len(v))
	for _, w := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(w))
	}
	return b
}

// hostGet is get(field, index, buf, cap). The text is complete, while the frame has only its beginning.
func hostGet(i *instance, stack []uint64) {
	field, index := abi.Field(stack[0]), uint32(stack[1])
	var v []byte
	ok := uint32(stack[0]) < 1<<16
	if ok && field == abi.Text {
		v, ok = []byte(i.q.text), index == 0
	} else if ok {
		var f value
		if f, ok = fieldOf(i.q.frame, field); ok {
			v, ok = f.item(index)
		}
	}
	stack[0] = i.give("get", words(stack[0], stack[1]), v, ok, stack[2], stack[3])
}

// hostArg is arg(ptr, len, buf, cap).
func hostArg(i *instance, stack []uint64) {
	pointer := i.key(stack[0], stack[1])
	text, ok := i.argument(pointer).text()
	stack[0] = i.give("arg", []byte(pointer), text, ok, stack[2], stack[3])
}

// hostArgKind is arg_kind(ptr, len).
func hostArgKind(i *instance, stack []uint64) {
	pointer := i.key(stack[0], stack[1])
	kind := i.argument(pointer).kind()
	i.note(HostCall{Name: "arg_kind", Args: []byte(pointer), Ret: kind})
	stack[0] = uint64(kind)
}

// hostData is data(key, keylen, buf, cap).
func hostData(i *instance, stack []uint64) {
	key := i.key(stack[0], stack[1])
	v, ok := i.module.source.Data[key]
	stack[0] = i.give("data", []byte(key), []byte(v), ok, stack[2], stack[3])
}

// hostMatch is match(kind, pat, patlen, s, slen).
func hostMatch(i *instance, stack []uint64) {
	kind, pattern, s := uint32(stack[0]), string(i.read(stack[1], stack[2])), string(i.read(stack[3], stack[4]))
	i.checkClock()
	ret := i.match(kind, pattern, s)
	args := append(append(words(stack[0], stack[2]), pattern...), s...)
	i.note(HostCall{Name: "match", Args: args, Ret: ret})
	stack[0] = uint64(uint32(ret))
}

// hostTrace is trace(rule, hit).
func hostTrace(i *instance, stack []uint64) {
	i.note(HostCall{Name: "trace", Args: words(stack[0], stack[1])})
}

// hostLog is log(level, ptr, len).
func hostLog(i *instance, stack []uint64) {
	text := i.read(stack[1], stack[2])
	kept := i.print(text)
	i.note(HostCall{Name: "log", Args: append(words(stack[0]), kept...)})
}

// hostTick is called by the module when it has spent its slice of fuel.
func hostTick(i *instance, _ []uint64) {
	if err := i.spend(int64(i.fuel.Get())); err != nil {
		i.abort(err)
	}
	i.checkClock()
	i.refill()
}

// hostDeep is called by the module when its calls are nested too deeply.
func hostDeep(i *instance, _ []uint64) {
	i.abort(failf(ClassDepth, "calls nested deeper than %d", i.module.limits.Depth))
}

// hostGrow replaces memory.grow.
func hostGrow(i *instance, stack []uint64) {
	pages := uint32(stack[0])
	i.pay(costHostCall + int64(pages)*(64<<10/bytesPerUnit))
	old, ok := i.memory.Grow(pages)
	if !ok {
		i.refused = true
		old = 1<<32 - 1
	}
	stack[0] = uint64(old)
}
