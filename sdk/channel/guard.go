package channel

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// newGRPCServer builds the server with our caps, and with a guard that lets calls of the channel service through
// only between Configure and the end, and counts them.
func newGRPCServer(s *server, opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(handshake.MaxFrame),
		grpc.MaxSendMsgSize(handshake.MaxFrame),
		grpc.UnaryInterceptor(s.guardCall),
		grpc.StreamInterceptor(s.guardStream),
	)...)
}

// guarded tells whether method belongs to the channel service.
func guarded(method string) bool {
	return strings.HasPrefix(method, "/"+channelv1.Channel_ServiceDesc.ServiceName+"/")
}

func (s *server) guardCall(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !guarded(info.FullMethod) {
		return next(ctx, req)
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	return next(ctx, req)
}

// guardStream does not count Receive, which ends by itself when the server stops.
func (s *server) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if !guarded(info.FullMethod) {
		return next(srv, stream)
	}
	if err := s.begin(); err != nil {
		return err
	}
	if info.FullMethod == channelv1.Channel_Receive_FullMethodName {
		s.calls.Done()
	} else {
		defer s.calls.Done()
	}
	return next(srv, stream)
}

// begin counts one call, or says why there can be none. After nil, s.calls.Done has to follow.
func (s *server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.configured {
		return status.Error(codes.FailedPrecondition, "not configured")
	}
	if s.ctx.Err() != nil {
		return errEnding()
	}
	s.calls.Add(1)
	return nil
}

// errEnding says, by its code, that the call was surely not carried out.
func errEnding() error { return status.Error(codes.FailedPrecondition, ErrEnding.Error()) }
