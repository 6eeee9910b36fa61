package spec

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Short returns a short digest that is safe in names.
func Short(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:4])
}

// NewKey returns a random 128-bit key in hexadecimal.
func NewKey() string {
	var b [16]byte
	rand.Read(b[:]) // never fails; see its documentation
	return hex.EncodeToString(b[:])
}

// IsKey reports whether a text has the form of NewKey's results, so that it is safe in file names.
func IsKey(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == 16 && text == hex.EncodeToString(b)
}
