package policy

import "encoding/binary"

// known are the last few that an instance gave and the host has read. A policy has few answers and gives them again and again, and to find
// one by its bytes takes a fraction of the time that checking and reading it does.
type known [maxKnown]knownAnswer

const (
	maxKnown     = 32
	maxKnownSize = 256 // bytes of an output frame
)

type knownAnswer struct {
	kind    string
	raw     int64
	frame   []byte
	verdict verdict
}

// at is where an answer is kept, if it is.
func (a *known) at(raw int64, frame []byte) *knownAnswer {
	key := uint64(raw)
	if n := len(frame); n >= 8 {
		key ^= binary.LittleEndian.Uint64(frame[n-8:]) // of a name, where the rule has no number
	}
	const mix = 0x9e3779b97f4a7c15
	return &a[key*mix>>59]
}

// find fills in the verdict of an answer that is known.
func (a *known) find(kind string, raw int64, frame []byte, v *verdict) bool {
	k := a.at(raw, frame)
	if k.raw != raw || string(k.frame) != string(frame) || k.kind != kind {
		return false
	}
	*v = k.verdict
	return true
}

// keep remembers the verdict of an answer.
func (a *known) keep(kind string, raw int64, frame []byte, v *verdict) {
	if len(frame) <= maxKnownSize {
		k := a.at(raw, frame)
		*k = knownAnswer{kind, raw, append(k.frame[:0], frame...), *v}
	}
}
