package driver

import (
	"context"
	"time"
)

// Role says what a container is for. It decides about the capabilities in it.
type Role string

// The roles.
const (
	// Supervised is the role of a container that commands run in.
	Supervised Role = ""
	// Preparer is the role of a container that gives a volume to its user, and ends. No command ever runs in it.
	Preparer Role = "preparer"
	// Service is the role of a container that runs an image's own program as that image's user, beside a supervised one. It
	// has the capabilities that servers need to prepare their folders and to change their user, and the last of its
	// output is kept. Nobody is inside to end it with the host: it is removed by id or label.
	Service Role = "service"
)

// Program is what a Service runs. Where it says nothing, the image counts.
type Program struct {
	Entrypoint, Cmd []string // nil: the image's
	Env             []string // besides the image's
	Dir, User       string
	Health          *HealthCheck
	ReadOnlyRoot    bool
	// Init puts a process before it that reaps zombies.
	Init bool
	// NetworkOf is the id of the container whose network, and whose names for hosts, it shares.
	NetworkOf string
}

// HealthCheck is how the engine finds out about health. Zero is the engine's default of each; Test is as the engine wants it.
type HealthCheck struct {
	Test                           []string
	Interval, Timeout, StartPeriod time.Duration
	Retries                        int
}

// Services is a Driver that can look after containers of the role Service.
type Services interface {
	// Condition says how a container is doing.
	Condition(ctx context.Context, id string) (Condition, error)
	// AwaitEnd returns once the container does not run any more. It has no deadline but that of ctx.
	AwaitEnd(ctx context.Context, id string) error
	// LastOutput is the end of what the container has written, at most so many bytes.
	LastOutput(ctx context.Context, id string, max int) ([]byte, error)
}

// Condition is the state of a Service.
type Condition struct {
	Running  bool
	Paused   bool
	Gone     bool // the engine has no such container
	ExitCode int  // once it has ended
	OOM      bool
	// Health is starting, healthy or unhealthy, and empty without a check.
	Health string
	// Check is what the last check has written.
	Check string
}
