package main

import (
	"context"
	"testing"
)

// canceled is a context that has ended: what is there counts, without waiting.
func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
