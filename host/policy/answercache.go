package policy

import "encoding/binary"

// known are the last few answers that an instance gave and the host has read. A policy has few answers and gives them again and again, and to
// find one by its bytes takes a fraction of the time that checking and reading it does. Each has two places, so that two that meet there
// do not drive each other out for ever.
type answerCache [32][2]cachedAnswer

const maxCachedSize = 256 // bytes of an output frame

type cachedAnswer struct {
	used    bool
	tool    bool // of a decision about a tool
	raw     int64
	frame   []byte
	verdict verdict
}

// at are the two places where an answer is kept, if it is.
func (a *answerCache) at(raw int64, frame []byte) *[2]cachedAnswer {
	key := uint64(raw)
	if n := len(frame); n >= 8 {
		key ^= binary.LittleEndian.Uint64(frame[n-8:]) // of a name, where the rule has no number
	}
	const mix = 0x9e3779b97f4a7c15
	return &a[key*mix>>59]
}

// find fills in the verdict of an answer that is known.
func (a *answerCache) find(tool bool, raw int64, frame []byte, v *verdict) bool {
	at := a.at(raw, frame)
	for n := range at {
		if k := &at[n]; k.raw == raw && k.tool == tool && k.used && string(k.frame) == string(frame) {
			*v = k.verdict
			return true
		}
	}
	return false
}

// keep remembers the verdict of an answer. Of two others, the older one makes room.
func (a *answerCache) keep(tool bool, raw int64, frame []byte, v *verdict) {
	if len(frame) > maxCachedSize {
		return
	}
	at := a.at(raw, frame)
	room := at[1].frame[:0]
	at[1] = at[0]
	at[0] = cachedAnswer{true, tool, raw, append(room, frame...), *v}
}
