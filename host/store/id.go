package store

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"
)

// encoding is base32 in an alphabet that sorts as the bytes do.
var encoding = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// NewID returns a unique identifier of 26 characters that sorts by time: 48 bits of milliseconds, 80 random bits.
func NewID(now time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	rand.Read(b[6:]) // never fails, by its contract
	return encoding.EncodeToString(b[:])
}

// LeastID returns an identifier that sorts after all from before a moment, and not after those from then on.
func LeastID(at time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(at.UnixMilli())<<16)
	return encoding.EncodeToString(b[:])
}

// IsID reports whether a text has the form of an identifier.
func IsID(text string) bool {
	_, err := encoding.DecodeString(text)
	return err == nil && len(text) == 26
}

// NewIDAfter is like NewID, but the result sorts after last even if the clock was set back or has not moved.
func NewIDAfter(last string, now time.Time) string {
	if b, err := encoding.DecodeString(last); err == nil && len(b) == 16 {
		at := time.UnixMilli(int64(binary.BigEndian.Uint64(b[:8]) >> 16))
		if !now.After(at) {
			now = at.Add(time.Millisecond)
		}
	}
	return NewID(now)
}
