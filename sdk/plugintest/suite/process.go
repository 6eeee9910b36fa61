package suite

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/flynnhost/flynn/sdk/plugintest/wire"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// processChecks are about the process: its start, its identity and its end.
func processChecks() []Check {
	return []Check{
		{Name: "handshake", Run: func(t *T) { t.start(false).describe() },
			Next: "print the handshake line first and nothing else on standard output; write logs to standard error"},
		{Name: "environment", Run: func(t *T) { t.start(true).describe() },
			Next: "take everything from Configure: a plugin must start without any variable of the operator"},
		{Name: "health", Run: func(t *T) { t.must(t.start(false).healthy(t.ctx)) },
			Next: `serve grpc.health.v1.Health and answer SERVING for the service "plugin"`},
		{Name: "controller", Run: controller, Next: "serve /plugin.GRPCController/Shutdown: answer, then end the process"},
		{Name: "lifeline", Run: lifeline, Next: "read standard input and end the process when it ends: the host is gone then"},
		{Name: "describe", Run: describes, Next: "make plugin.toml and Describe say the same"},
		{Name: "describe-grease", Run: describeGrease, Next: "ignore fields that you do not know"},
		{Name: "shutdown", Run: shutdown, Next: "answer Shutdown within its grace and end the process right after"},
		{Name: "frame-limit", Run: frameLimit, Next: "refuse frames of more than 1 MiB with RESOURCE_EXHAUSTED and go on"},
		{Name: "unknown-method", Run: unknownMethod, Next: "answer methods that you do not serve with UNIMPLEMENTED and go on"},
	}
}

// endLimit is how long a process may take to end after it was asked to.
const endLimit = 2 * time.Second

func controller(t *T) {
	p := t.start(false)
	p.describe()
	ctx, cancel := context.WithTimeout(t.ctx, endLimit+t.config.Slack)
	defer cancel()
	err := p.Conn().Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	// Go's server may stop before its answer is sent; what matters is that the process ends.
	t.answers(err, "Shutdown of the controller", codes.OK, codes.Unavailable, codes.Canceled)
	p.exits(endLimit, "Shutdown of the controller")
}

// lifelineLimit is the second of the contract, and some time for a busy machine.
const lifelineLimit = 1500 * time.Millisecond

func lifeline(t *T) {
	p := t.ready()
	p.HangUp()
	p.exits(lifelineLimit, "the end of its standard input")
}

func describes(t *T) {
	p := t.start(false)
	first := p.describe()
	if m, ok := p.Process.(interface {
		// Disagreements returns the differences between an answer and plugin.toml.
		Disagreements(d *pluginv1.DescribeResponse) []string
	}); ok {
		if wrong := m.Disagreements(first); len(wrong) > 0 {
			t.Fail("%s", strings.Join(wrong, "; "))
		}
	}
	if !proto.Equal(first, p.describe()) {
		t.Fail("the second Describe gives another answer")
	}
}

func describeGrease(t *T) {
	_, err := t.start(false).plugin.Describe(t.ctx, wire.Grease(&pluginv1.DescribeRequest{}))
	t.must(err)
}

func shutdown(t *T) {
	p, grace := t.ready(), t.plugin.StopTimeout
	ctx, cancel := context.WithTimeout(t.ctx, grace)
	defer cancel()
	if _, err := p.plugin.Shutdown(ctx, &pluginv1.ShutdownRequest{Grace: durationpb.New(grace)}); err != nil {
		t.Fail("shutdown with a grace of %v: %w", grace, err)
	}
	p.exits(endLimit, "it answered Shutdown")
}

func frameLimit(t *T) {
	p := t.start(false)
	large := &pluginv1.DescribeRequest{HostVersion: strings.Repeat("x", handshake.MaxFrame+handshake.MaxFrame/2)}
	_, err := p.plugin.Describe(t.ctx, large, grpc.MaxCallSendMsgSize(4*handshake.MaxFrame))
	t.answers(err, "a frame of 1.5 MiB", codes.ResourceExhausted)
	p.alive()
}

func unknownMethod(t *T) {
	p := t.start(false)
	err := p.Conn().Invoke(t.ctx, "/flynn.plugin.v1.Plugin/FromALaterVersion", &emptypb.Empty{}, &emptypb.Empty{})
	t.answers(err, "an unknown method", codes.Unimplemented)
	p.alive()
}
