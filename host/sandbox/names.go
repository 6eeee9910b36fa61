package sandbox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// short is a name-safe digest.
func short(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:4])
}

// random is a fresh 128-bit name.
func random() string {
	var b [16]byte
	rand.Read(b[:]) // never fails, says its documentation
	return hex.EncodeToString(b[:])
}
