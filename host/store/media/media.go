// Package media keeps the bytes of attachments: files that are named by their SHA-256, bounded one by one and in all.
//
// Start with Store: Put, Open, Prune. What somebody says about media (a name, a type) is kept beside the bytes and shown, never
// believed: no name is ever part of a path, and the type is told from the bytes as well. Anyone who knows a digest may read the
// media; who holds a digest for longer than a while says so through Config.Keep. The package knows no messages and no channels.
package media

import (
	"errors"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Head is what somebody says about media before its bytes.
type Head struct {
	Size int64 // bytes; 0 when unknown
	Type string
	Name string
	// Owner is the one who brings it, for Config.Share; empty is nobody. It is not shown to anybody who reads the media.
	Owner message.SenderKey
}

// Info is what the store knows about media.
type Info struct {
	Digest   string // SHA-256, lower-case hex
	Size     int64  // bytes
	Detected string // media type that the bytes look like
	Claimed  string // media type that the latest Head claimed; empty when it was none
	Name     string // file name that the latest Head gave, without folders and control characters; may be empty
	Put      time.Time
}

// Reasons why media are not taken or given. Errors wrap them.
var (
	ErrNotFound = errors.New("no media of that digest: it was never put, or is pruned")
	ErrTooLarge = errors.New("media is larger than [media] max_object allows")
	ErrFull     = errors.New("the media store is full of what is needed or new: raise [media] max_total")
	ErrShare    = errors.New("its owner has brought as much media as one may")
	ErrSize     = errors.New("media has another size than its head says")
	ErrCorrupt  = errors.New("media on disk is not what was put")
)
