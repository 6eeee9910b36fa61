package process

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// describe joins the descriptions of the parts. Name, version and schema belong to the plugin, so each part has the same.
func describe(parts []Part) *pluginv1.DescribeResponse {
	wire := &pluginv1.DescribeResponse{Protocols: []uint32{handshake.Protocol}}
	for _, p := range parts {
		p.Describe(wire)
	}
	return wire
}

// SchemaDigest returns the digest of a schema of settings; "" without a schema.
func SchemaDigest(schema []byte) string {
	if len(schema) == 0 {
		return ""
	}
	sum := sha256.Sum256(schema)
	return hex.EncodeToString(sum[:])
}

func utf8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
