package store

import (
	"context"
	"time"
)

// KeyedWrite is a request to write something that a client has given a key, so that it can be sent again without being carried out again.
type KeyedWrite struct {
	Caller, Key string
	// Print is a digest of the request: the same key stands for one request only.
	Print []byte
	Begun time.Time
	// Done is false while the request is carried out, and for ever if the process ended meanwhile.
	Done bool
	// Status, Type and Body are the answer. Status is 0 if the answer is not kept.
	Status int
	Type   string
	Body   []byte
}

// KeyedWrites keeps what was answered to requests with keys.
type KeyedWrites interface {
	// BeginKeyed records a request that is about to be carried out. If there is one with its caller and key, it returns that one, and
	// fresh is false. Requests that began before a time are forgotten. It returns ErrNoRoom if the caller has most of them.
	BeginKeyed(ctx context.Context, k KeyedWrite, forget time.Time, most int) (found KeyedWrite, fresh bool, err error)
	// EndKeyed records the answer of a request.
	EndKeyed(ctx context.Context, k KeyedWrite) error
}
