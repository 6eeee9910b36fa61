package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/flynnhost/flynn/host/model"
)

// maxName is the longest tool name that every vendor takes.
const maxName = 64

// Names translates tool names of one request. Vendors allow letters, digits, "_" and "-" only;
// Flynn's names have dots. The wire name depends on the name alone, never on the other tools,
// so that transcripts stay the same and prompt caches hold.
type Names struct {
	byWire map[string]string
}

// NewNames collects the names that a request mentions.
func NewNames(req model.Request) (*Names, error) {
	n := &Names{byWire: make(map[string]string, len(req.Tools))}
	for _, tool := range req.Tools {
		if err := n.add(tool.Name); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (n *Names) add(name string) error {
	wire := Name(name)
	if other, taken := n.byWire[wire]; taken {
		return fmt.Errorf("tools %q and %q have the same name for the model; rename one", other, name)
	}
	n.byWire[wire] = name
	return nil
}

// Back returns Flynn's name of a called tool. An unknown name is returned as it is, and the
// tool layer refuses it.
func (n *Names) Back(wire string) string {
	if name, ok := n.byWire[wire]; ok {
		return name
	}
	return wire
}

// Name returns the wire name of a tool: "shell.exec" is "shell__exec". Names for which that
// would be ambiguous or too long get a digest at their end.
func Name(name string) string {
	wire := strings.ReplaceAll(name, ".", "__")
	if isWord(wire) && len(wire) <= maxName && !touching(name) {
		return wire
	}
	const digest = 12
	wire = strings.Map(wordRune, wire)
	return wire[:min(len(wire), maxName-digest-1)] + "_" + shortHash(name, digest)
}

// touching reports whether the "__" of a dot would be ambiguous with the underscores of the name.
func touching(name string) bool {
	return strings.Contains(name, "__") || strings.Contains(name, "._") || strings.Contains(name, "_.") ||
		strings.Contains(name, "..")
}

// maxID is the longest call id that every vendor takes.
const maxID = 40

// ID returns the wire form of a call id, which may come from another vendor: itself where
// that is acceptable, a digest of it otherwise.
func ID(id string) string {
	if isWord(id) && len(id) <= maxID {
		return id
	}
	return "call_" + shortHash(id, 24)
}

// NewID makes an id for a call that came without one.
func NewID() string { return "call_" + strings.ToLower(rand.Text()[:20]) }

func isWord(s string) bool {
	return s != "" && strings.Map(wordRune, s) == s
}

func wordRune(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
		return r
	}
	return '_'
}

func shortHash(s string, digits int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:digits]
}
