package media

import (
	"mime"
	"strings"
	"unicode"

	"github.com/gabriel-vasile/mimetype"

	"github.com/flynnhost/flynn/sdk/cut"
)

// Bounds of a Head, in bytes.
const (
	maxName = 200
	maxType = 100
)

// detectFrom is the number of bytes from which the type is detected.
const detectFrom = 3 << 10

// Type returns the media type to use: the claimed one unless the bytes contradict it, and the detected one otherwise.
func (i Info) Type() string {
	if i.Claimed == "" {
		return i.Detected
	}
	found := mimetype.Lookup(i.Detected)
	if found != nil && found.Is(i.Claimed) {
		return i.Claimed
	}
	// The detector does not know every type; an unknown one may be true of bytes without a specific type.
	unknown := mimetype.Lookup(i.Claimed) == nil
	if unknown && (i.Detected == "application/octet-stream" ||
		strings.HasPrefix(i.Detected, "text/plain") && strings.HasPrefix(i.Claimed, "text/")) {
		return i.Claimed
	}
	return i.Detected
}

// cleanType returns a type without parameters, or "" if it is invalid.
func cleanType(claimed string) string {
	if len(claimed) > maxType {
		return ""
	}
	t, _, err := mime.ParseMediaType(claimed)
	if err != nil || strings.Count(t, "/") != 1 {
		return ""
	}
	return t
}

// cleanName returns the last element of a name, fit to be shown. Both slashes separate elements.
func cleanName(name string) string {
	name = strings.ToValidUTF8(name, "")
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) { // control characters, and those that change the writing direction
			return -1
		}
		return r
	}, name)
	name = strings.Trim(name, ". ")
	return strings.TrimLeft(cut.Tail(name, maxName), ". ") // the extension is at the end
}
