package service

import "google.golang.org/grpc/codes"

// Counted is published when a plugin counts something; the names of an instance are bounded.
type Counted struct {
	Instance, Name string
	N              uint64
}

// Called is published after every call of a plugin with a valid token.
type Called struct {
	Instance, Method string
	Code             codes.Code
}

// HookServed is published after every request to a webhook; Instance is empty if none has registered the path.
type HookServed struct {
	Instance string
	Status   int
}
