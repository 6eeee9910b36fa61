// Package digest names contents by their SHA-256, in lower-case hex.
//
// Start with Of, or with Read for contents that do not fit into memory. The package signs nothing: host/install/signing does.
package digest

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
)

// Of returns the digest of content.
func Of(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Read returns the digest of everything that r holds.
func Read(r io.Reader) (string, error) {
	h := sha256.New()
	_, err := io.Copy(h, r)
	return hex.EncodeToString(h.Sum(nil)), err
}

// Valid reports whether s has the form of a digest.
func Valid(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}
