// Package media stores the bytes of attachments: files that are named by their SHA-256, with bounds for each and for all.
//
// Start with Store: Put, Open, Prune. The sender's description of media (a name, a type) is kept beside the bytes and shown, but not
// trusted: no name is ever part of a path, and the type is also detected from the bytes. Anyone who knows a digest may read the media.
// The holder of a digest must report it through Config.Keep if it is needed for more than a while. The package knows no messages and no
// channels.
package media

import (
	"errors"
	"time"

	"github.com/flynnhost/flynn/host/message"
)

// Head is the sender's description of media.
type Head struct {
	Size int64 // bytes; 0 if unknown
	Type string
	Name string
	// Owner is the one whose share it uses (Config.Share); empty means nobody. It is not shown to readers.
	Owner message.SenderKey
}

// Info is what the store knows about media.
type Info struct {
	Digest   string // SHA-256, lower-case hex
	Size     int64  // bytes
	Detected string // media type detected from the bytes
	Claimed  string // media type of the latest Head; empty if invalid
	Name     string // file name of the latest Head, without folders and control characters; may be empty
	Put      time.Time
}

// Errors of Put and Open.
var (
	ErrNotFound = errors.New("no media with that digest: it was never stored, or was pruned")
	ErrTooLarge = errors.New("media is larger than [media] max_object allows")
	ErrFull     = errors.New("the media store is full: raise [media] max_total")
	ErrShare    = errors.New("its owner has reached the limit of stored media")
	ErrSize     = errors.New("media has a different size than announced")
	ErrCorrupt  = errors.New("media on disk is damaged")
)
