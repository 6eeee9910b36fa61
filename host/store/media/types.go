package media

import (
	"mime"
	"strings"
	"unicode"

	"github.com/gabriel-vasile/mimetype"

	"github.com/flynnhost/flynn/sdk/cut"
)

// Bounds of what a Head may say, in bytes.
const (
	maxName = 200
	maxType = 100
)

// detectFrom is how many first bytes tell the type.
const detectFrom = 3 << 10

// Type is the media type to go by: the claimed one as long as the bytes do not speak against it, the detected one otherwise.
func (i Info) Type() string {
	if i.Claimed == "" {
		return i.Detected
	}
	found := mimetype.Lookup(i.Detected)
	if found != nil && found.Is(i.Claimed) {
		return i.Claimed
	}
	// A type that the detector does not know cannot be found; it may be true of bytes that look like nothing in particular.
	unknown := mimetype.Lookup(i.Claimed) == nil
	if unknown && (i.Detected == "application/octet-stream" ||
		strings.HasPrefix(i.Detected, "text/plain") && strings.HasPrefix(i.Claimed, "text/")) {
		return i.Claimed
	}
	return i.Detected
}

// cleanType is the type without parameters, and empty for what is none.
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

// cleanName is the last element of a name, fit to be shown: programs of two worlds write their paths with either slash.
func cleanName(name string) string {
	name = strings.ToValidUTF8(name, "")
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) { // control characters, and those that turn the direction of writing
			return -1
		}
		return r
	}, name)
	name = strings.Trim(name, ". ")
	return strings.TrimLeft(cut.Tail(name, maxName), ". ") // its end has the extension
}
