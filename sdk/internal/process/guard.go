package process

import (
	"context"
	"errors"
	"path"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// newGRPCServer returns the server with our limits, and with a guard that accepts calls of the parts only between Configure and the end,
// and counts them.
func newGRPCServer(s *Server, opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(handshake.MaxFrame),
		grpc.MaxSendMsgSize(handshake.MaxFrame),
		grpc.UnaryInterceptor(s.guardCall),
		grpc.StreamInterceptor(s.guardStream),
	)...)
}

// guarded reports whether method ("/SERVICE/METHOD") belongs to a part.
func (s *Server) guarded(method string) bool {
	service := path.Dir(method)
	return slices.ContainsFunc(s.parts, func(p Part) bool { return service == "/"+p.Service })
}

func (s *Server) guardCall(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if !s.guarded(info.FullMethod) {
		return next(ctx, req)
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	return next(ctx, req)
}

// guardStream does not count streams that end when the server stops.
func (s *Server) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if !s.guarded(info.FullMethod) {
		return next(srv, stream)
	}
	if err := s.begin(); err != nil {
		return err
	}
	if s.endless(info.FullMethod) {
		s.calls.Done()
	} else {
		defer s.calls.Done()
	}
	return next(srv, stream)
}

// begin counts one call, or returns why it is refused. If it returns nil, call s.calls.Done afterwards.
func (s *Server) begin() error {
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

// endless reports whether a stream continues until the server stops.
func (s *Server) endless(method string) bool {
	return slices.ContainsFunc(s.parts, func(p Part) bool { return slices.Contains(p.Endless, method) })
}

// ErrEnding means that the plugin is ending.
var ErrEnding = errors.New("plugin is ending")

// errEnding returns an error whose code means that the call was certainly not carried out.
func errEnding() error { return status.Error(codes.FailedPrecondition, ErrEnding.Error()) }
