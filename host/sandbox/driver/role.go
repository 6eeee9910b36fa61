package driver

import (
	"context"
	"time"
)

// Role is the purpose of a container. It decides its capabilities.
type Role string

// The roles.
const (
	// Supervised is the role of a container that runs commands.
	Supervised Role = ""
	// Preparer is the role of a container that changes the owner of a volume and ends. It never runs commands.
	Preparer Role = "preparer"
	// Service is the role of a container that runs an image's own program as the image's user, beside a supervised one. It has the
	// capabilities that servers need to prepare their folders and to change their user, and the end of its output is kept. No supervisor
	// ends it with the host: it is removed by id or label.
	Service Role = "service"
)

// Program is the program of a Service. Nil fields stand for those of the image.
type Program struct {
	Entrypoint, Cmd []string // nil: those of the image
	Env             []string // in addition to the image's
	Dir, User       string
	Health          *HealthCheck
	ReadOnlyRoot    bool
	// Init adds an init process that reaps zombies.
	Init bool
	// NetworkOf is the id of the container whose network and host names it shares.
	NetworkOf string
}

// HealthCheck is how the engine checks health. Zero values are the engine's defaults; Test has the engine's form.
type HealthCheck struct {
	Test                           []string
	Interval, Timeout, StartPeriod time.Duration
	Retries                        int
}

// Services is a Driver that supports the role Service.
type Services interface {
	// Condition returns the state of a container.
	Condition(ctx context.Context, id string) (Condition, error)
	// AwaitEnd returns once the container does not run any more. It has no deadline of its own.
	AwaitEnd(ctx context.Context, id string) error
	// LastOutput returns the end of the container's output, at most max bytes.
	LastOutput(ctx context.Context, id string, max int) ([]byte, error)
}

// Condition is the state of a Service.
type Condition struct {
	Running  bool
	Paused   bool
	Gone     bool // the container does not exist
	ExitCode int  // after it has ended
	OOM      bool
	// Health is starting, healthy or unhealthy; empty without a health check.
	Health string
	// Check is the output of the last health check.
	Check string
}
