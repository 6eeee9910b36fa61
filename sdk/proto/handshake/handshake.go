// Package handshake holds what host and plugin agree on before the first call: the cookie by which a plugin knows that a host started it,
// the protocol number, and the size limits.
//
// A plugin in any language needs these values and the line that it prints on standard output:
//
//	1|PROTOCOL|unix|PATH|grpc|CERTIFICATE
package handshake

// Values of the go-plugin handshake.
const (
	// Protocol is the number of the contract in flynn.*.v1.
	Protocol = 1
	// CookieKey and CookieValue are an environment variable by which a plugin knows that a host started it. They only guard against running
	// a plugin by hand.
	CookieKey   = "FLYNN_PLUGIN"
	CookieValue = "f1c0d5b26a4e4f7f8e0b7a5d9c3e2417"
	// Service is the name under which go-plugin's servers register in grpc.health.v1.
	Service = "plugin"
)

// MaxFrame bounds one gRPC message in either direction, in bytes.
const MaxFrame = 1 << 20

// MaxChunk bounds one chunk of media, in bytes.
const MaxChunk = 256 << 10
