package spec

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Short is a name-safe digest.
func Short(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:4])
}

// NewKey is a fresh 128-bit name.
func NewKey() string {
	var b [16]byte
	rand.Read(b[:]) // never fails, says its documentation
	return hex.EncodeToString(b[:])
}

// IsKey reports whether a text is one that NewKey makes, and so fit for a file's name.
func IsKey(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == 16 && text == hex.EncodeToString(b)
}
