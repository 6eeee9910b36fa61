// Command gorules has the twenty rules of the benchmark in Go: it has no import of the project, so that it measures the engine
// and not the SDK.
package main

import (
	"encoding/binary"
	"strings"
	"unsafe"
)

type rule struct{ channel, prefix, agent string }

var rules = [20]rule{
	{"telegram", "telegram:100", "agent-01"}, {"telegram", "telegram:101", "agent-02"}, {"telegram", "telegram:102", "agent-03"},
	{"telegram", "telegram:2", "agent-04"}, {"discord", "discord:3000", "agent-05"}, {"discord", "discord:3001", "agent-06"},
	{"discord", "discord:31", "agent-07"}, {"discord", "discord:4", "agent-08"}, {"slack", "slack:U00", "agent-09"},
	{"slack", "slack:U01", "agent-10"}, {"slack", "slack:U02", "agent-11"}, {"slack", "slack:W", "agent-12"},
	{"irc", "irc:al", "agent-13"}, {"irc", "irc:bo", "agent-14"}, {"irc", "irc:ca", "agent-15"}, {"irc", "irc:da", "agent-16"},
	{"whatsapp", "whatsapp:+49", "agent-17"}, {"whatsapp", "whatsapp:+33", "agent-18"}, {"web", "web:", "agent-19"},
	{"matrix", "matrix:@", "agent-20"},
}

var region [8192]uint64

func frame() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&region)), unsafe.Sizeof(region)) }

//go:wasmexport flynn_abi
func flynnABI() uint32 { return 1 << 16 }

//go:wasmexport flynn_buffer
func flynnBuffer(least uint32) uint32 {
	if uintptr(least) > unsafe.Sizeof(region) {
		return 0
	}
	return uint32(uintptr(unsafe.Pointer(&region)))
}

func field(id uint16) string {
	f := frame()
	n := binary.LittleEndian.Uint16(f[6:])
	for e := f[16:]; n > 0; n, e = n-1, e[12:] {
		if binary.LittleEndian.Uint16(e) == id {
			v := f[binary.LittleEndian.Uint32(e[4:]):][:binary.LittleEndian.Uint32(e[8:])]
			return unsafe.String(unsafe.SliceData(v), len(v))
		}
	}
	return ""
}

//go:wasmexport flynn_route
func flynnRoute(uint32) int64 {
	channel, sender := field(1), field(5)
	for i := range rules {
		if r := &rules[i]; r.channel == channel && strings.HasPrefix(sender, r.prefix) {
			return answer(r.agent, i+1)
		}
	}
	return 0
}

func answer(agent string, number int) int64 {
	out := frame()
	total := 28 + len(agent)
	binary.LittleEndian.PutUint32(out, 0x314e4c46)
	binary.LittleEndian.PutUint16(out[4:], 3)
	binary.LittleEndian.PutUint16(out[6:], 1)
	binary.LittleEndian.PutUint64(out[8:], uint64(total))
	binary.LittleEndian.PutUint16(out[16:], 64)
	binary.LittleEndian.PutUint16(out[18:], 1)
	binary.LittleEndian.PutUint32(out[20:], 28)
	binary.LittleEndian.PutUint32(out[24:], uint32(len(agent)))
	copy(out[28:], agent)
	return int64(total)<<32 | int64(number)<<8 | 1
}

func main() {}
