package pairing

import (
	"crypto/subtle"
	"io"
	"strings"

	"github.com/flynnhost/flynn/host/access/pairings"
)

// alphabet has 32 characters that are hard to confuse: no I, no O, no 0, no 1.
const alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"

// codeLen is the length of a code: 40 random bits.
const codeLen = 8

// newCode draws a code.
func newCode(random io.Reader) (string, error) {
	code := make([]byte, codeLen)
	if _, err := io.ReadFull(random, code); err != nil {
		return "", err
	}
	for i, b := range code {
		code[i] = alphabet[int(b)%len(alphabet)] // 256 is a multiple of 32: all characters are equally likely
	}
	return string(code), nil
}

// ShowCode returns a code as people read and type it: ABCD-EFGH.
func ShowCode(code string) string {
	if len(code) != codeLen {
		return code
	}
	return code[:codeLen/2] + "-" + code[codeLen/2:]
}

// maxTyped bounds what may be a code, in bytes.
const maxTyped = 32

// ParseCode parses a code as people type it: in any case, with hyphens and spaces anywhere.
func ParseCode(text string) (code string, ok bool) {
	if len(text) > maxTyped {
		return "", false
	}
	code = strings.NewReplacer(" ", "", "-", "").Replace(strings.ToUpper(text))
	if len(code) != codeLen || strings.Trim(code, alphabet) != "" {
		return "", false
	}
	return code, true
}

// find returns the request with a code, in constant time with respect to the codes. d.mu is held.
func (d *Service) find(code string) (pairings.Pairing, bool) {
	var found pairings.Pairing
	ok, now := false, d.cfg.Now()
	for _, p := range d.rows {
		same := subtle.ConstantTimeCompare([]byte(p.Code), []byte(code)) == 1
		if same && valid(p, now) {
			found, ok = p, true
		}
	}
	return found, ok
}
