package policy

import "encoding/binary"

// answerCache holds the last answers of an instance. A policy repeats a few answers, and comparing the bytes of one takes a fraction of the time
// that checking and reading it takes. Each has two places, so that two answers with
// the same hash do not evict each other.
type answerCache [32][2]cachedAnswer

const maxCachedSize = 256 // bytes of an output frame

type cachedAnswer struct {
	used     bool
	tool     bool // of a decision about a tool
	raw      int64
	frame    []byte
	decision decision
}

// at returns the two places where an answer may be.
func (a *answerCache) at(raw int64, frame []byte) *[2]cachedAnswer {
	key := uint64(raw)
	if n := len(frame); n >= 8 {
		key ^= binary.LittleEndian.Uint64(frame[n-8:]) // of a name, where the rule has no number
	}
	const mix = 0x9e3779b97f4a7c15
	return &a[key*mix>>59]
}

// find fills in the decision of a cached answer.
func (a *answerCache) find(tool bool, raw int64, frame []byte, v *decision) bool {
	at := a.at(raw, frame)
	for n := range at {
		if k := &at[n]; k.raw == raw && k.tool == tool && k.used && string(k.frame) == string(frame) {
			*v = k.decision
			return true
		}
	}
	return false
}

// keep caches the decision of an answer in place of the older of the two.
func (a *answerCache) keep(tool bool, raw int64, frame []byte, v *decision) {
	if len(frame) > maxCachedSize {
		return
	}
	at := a.at(raw, frame)
	room := at[1].frame[:0]
	at[1] = at[0]
	at[0] = cachedAnswer{true, tool, raw, append(room, frame...), *v}
}
