package config

import (
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// keyPath leads to a key from the top of the file. An element of a list is the segment "[0]".
type keyPath []string

func (p keyPath) child(key string) keyPath {
	return append(p[:len(p):len(p)], key)
}

func (p keyPath) index(i int) keyPath { return p.child("[" + strconv.Itoa(i) + "]") }

// String writes the path as TOML would, quotes included: routing.senders."slack:U0", policies[0].name.
func (p keyPath) String() string {
	var b strings.Builder
	for i, segment := range p {
		switch {
		case strings.HasPrefix(segment, "["):
			b.WriteString(segment)
			continue
		case i > 0:
			b.WriteByte('.')
		}
		b.WriteString(toml.Key{segment}.String())
	}
	return b.String()
}

// last is the key itself.
func (p keyPath) last() string {
	if len(p) == 0 {
		return ""
	}
	return p[len(p)-1]
}

// KeyString writes a key, given by its segments, as errors show it.
func KeyString(key ...string) string { return keyPath(key).String() }
