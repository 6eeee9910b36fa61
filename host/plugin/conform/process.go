package conform

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// processChecks are about the process: how it starts, who it is, how it ends.
func processChecks() []check {
	return []check{
		{name: "handshake", run: starts(false),
			next: "print the handshake line first and nothing else on standard output; write logs to standard error"},
		{name: "environment", run: starts(true),
			next: "take everything from Configure: a plugin must start without any variable of the operator"},
		{name: "health", run: serving, next: `serve grpc.health.v1.Health and answer SERVING for the service "plugin"`},
		{name: "controller", run: controller, next: "serve /plugin.GRPCController/Shutdown: answer, then end the process"},
		{name: "lifeline", run: lifeline, next: "read standard input and end the process when it ends: the host is gone then"},
		{name: "describe", run: describes, next: "make plugin.toml and Describe say the same"},
		{name: "describe-grease", run: describeGrease, next: "ignore fields that you do not know"},
		{name: "shutdown", run: shutdown, next: "answer Shutdown within its grace and end the process right after"},
		{name: "frame-limit", run: frameLimit, next: "refuse frames of more than 1 MiB with RESOURCE_EXHAUSTED and go on"},
		{name: "unknown-method", run: unknownMethod, next: "answer methods that you do not serve with UNIMPLEMENTED and go on"},
	}
}

func starts(bare bool) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		s, err := b.start(ctx, bare)
		if err != nil {
			return err
		}
		_, err = s.describe(ctx)
		return err
	}
}

// describe makes the call within the host's own limit.
func (s *subject) describe(ctx context.Context) (*pluginv1.DescribeResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, describeLimit+s.slack)
	defer cancel()
	d, err := s.plugin.Describe(ctx, &pluginv1.DescribeRequest{HostVersion: "0.0.0"})
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	return d, nil
}

// describeLimit is generous: a slow machine is not the plugin's fault.
const describeLimit = 2 * time.Second

func serving(ctx context.Context, b *bench) error {
	s, err := b.start(ctx, false)
	if err != nil {
		return err
	}
	return s.Healthy(ctx)
}

// endLimit is how long a process may take to end once it has been asked to.
const endLimit = 2 * time.Second

func controller(ctx context.Context, b *bench) error {
	s, err := b.start(ctx, false)
	if err != nil {
		return err
	}
	if _, err := s.describe(ctx); err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, endLimit+s.slack)
	defer cancel()
	err = s.Conn().Invoke(call, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	// Go's server stops so hard that its own answer may be lost; what counts is that the process ends.
	if code := code(err, "Shutdown of the controller", codes.OK, codes.Unavailable, codes.Canceled); code != nil {
		return code
	}
	if !s.Exited(endLimit + s.slack) {
		return fmt.Errorf("the process runs %v after Shutdown of the controller", endLimit+s.slack)
	}
	return nil
}

// lifelineLimit is the second of the contract and a little for a busy machine.
const lifelineLimit = 1500 * time.Millisecond

func lifeline(ctx context.Context, b *bench) error {
	s, err := b.ready(ctx)
	if err != nil {
		return err
	}
	s.HangUp()
	if !s.Exited(lifelineLimit + s.slack) {
		return fmt.Errorf("the process runs %v after the end of its standard input", lifelineLimit+s.slack)
	}
	return nil
}

func describes(ctx context.Context, b *bench) error {
	s, err := b.start(ctx, false)
	if err != nil {
		return err
	}
	first, err := s.describe(ctx)
	if err != nil {
		return err
	}
	if wrong := s.Disagreements(first); len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	again, err := s.describe(ctx)
	if err == nil && !proto.Equal(first, again) {
		err = errors.New("the second Describe gives another answer")
	}
	return err
}

func describeGrease(ctx context.Context, b *bench) error {
	s, err := b.start(ctx, false)
	if err != nil {
		return err
	}
	_, err = s.plugin.Describe(ctx, grease(&pluginv1.DescribeRequest{}))
	return err
}

func shutdown(ctx context.Context, b *bench) error {
	s, err := b.ready(ctx)
	if err != nil {
		return err
	}
	grace := time.Duration(s.Manifest().Run.StopTimeout)
	call, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if _, err := s.plugin.Shutdown(call, &pluginv1.ShutdownRequest{Grace: durationpb.New(grace)}); err != nil {
		return fmt.Errorf("shutdown with a grace of %v: %w", grace, err)
	}
	if !s.Exited(endLimit + s.slack) {
		return fmt.Errorf("the process runs %v after it answered Shutdown", endLimit+s.slack)
	}
	return nil
}

func frameLimit(ctx context.Context, b *bench) error {
	s, err := b.start(ctx, false)
	if err != nil {
		return err
	}
	large := &pluginv1.DescribeRequest{HostVersion: strings.Repeat("x", handshake.MaxFrame+handshake.MaxFrame/2)}
	_, err = s.plugin.Describe(ctx, large, grpc.MaxCallSendMsgSize(4*handshake.MaxFrame))
	if err := code(err, "a frame of 1.5 MiB", codes.ResourceExhausted); err != nil {
		return err
	}
	return s.alive(ctx)
}

func unknownMethod(ctx context.Context, b *bench) error {
	s, err := b.start(ctx, false)
	if err != nil {
		return err
	}
	err = s.Conn().Invoke(ctx, "/flynn.plugin.v1.Plugin/FromALaterVersion", &emptypb.Empty{}, &emptypb.Empty{})
	if err := code(err, "an unknown method", codes.Unimplemented); err != nil {
		return err
	}
	return s.alive(ctx)
}
