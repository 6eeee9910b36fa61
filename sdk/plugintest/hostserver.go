package plugintest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

// Limits that the host enforces as well, in bytes and counts.
const (
	maxKey   = 256
	maxValue = 64 << 10
	maxMedia = 64 << 20
	maxKeys  = 1000 // of one list
)

var validCounter = regexp.MustCompile(`^[a-z0-9_]{1,40}$`)

// hostServer serves the services to one process of a plugin.
type hostServer struct {
	hostv1.UnimplementedHostServer
	*Services
	granted []string
	token   string
	hookURL string // of the instance; empty without permission
	ended   context.Context
	onServe func(url string)
}

// permissions returns the permissions that a manifest can request.
func permissions() []string { return []string{"kv", "media", "metric", "webhook"} }

// serveServices serves the granted services for as long as the test lasts.
func (h *process) serveServices() error {
	if len(h.config.Permissions) == 0 {
		return nil
	}
	for _, p := range h.config.Permissions {
		if !slices.Contains(permissions(), p) {
			return fmt.Errorf("permission %q: want some of %v", p, permissions())
		}
	}
	// Not the test's own folder, whose name is too long for a socket.
	dir, err := os.MkdirTemp("", "flynn")
	if err != nil {
		return err
	}
	h.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	lis, err := net.Listen("unix", filepath.Join(dir, "host"))
	if err != nil {
		return err
	}
	ended, end := context.WithCancel(context.Background())
	s := &hostServer{Services: h.config.Services, granted: h.config.Permissions, token: rand.Text(), ended: ended, onServe: h.config.onServe}
	if slices.Contains(s.granted, "webhook") {
		s.hookURL = s.serveHooks(h.t, h.config.Instance)
		h.hookURL = s.hookURL
	}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(handshake.MaxFrame), grpc.MaxSendMsgSize(handshake.MaxFrame),
		grpc.UnaryInterceptor(s.guardCall), grpc.StreamInterceptor(s.guardStream), grpc.WaitForHandlers(true))
	hostv1.RegisterHostServer(g, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = g.Serve(lis)
	}()
	h.t.Cleanup(func() {
		end()
		g.Stop()
		<-served
	})
	h.endpoint, h.token = "unix:"+lis.Addr().String(), s.token
	return nil
}

// service returns the permission that a method needs.
func service(method string) string {
	switch method {
	case hostv1.Host_PutMedia_FullMethodName, hostv1.Host_GetMedia_FullMethodName:
		return "media"
	case hostv1.Host_Webhook_FullMethodName:
		return "webhook"
	case hostv1.Host_Count_FullMethodName:
		return "metric"
	}
	return "kv"
}

func (s *hostServer) admit(ctx context.Context, method string) error {
	md, _ := metadata.FromIncomingContext(ctx)
	if !slices.Equal(md.Get("authorization"), []string{"Bearer " + s.token}) {
		return status.Error(codes.Unauthenticated, "the token is wrong")
	}
	if need := service(method); !slices.Contains(s.granted, need) {
		return status.Errorf(codes.PermissionDenied, "plugin.toml does not ask for %s under permissions.host", need)
	}
	return nil
}

func (s *hostServer) guardCall(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := s.admit(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (s *hostServer) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := s.admit(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return next(srv, stream)
}

func checkKey(key string) error {
	if key == "" || len(key) > maxKey {
		return status.Errorf(codes.InvalidArgument, "a key must have 1 to %d bytes", maxKey)
	}
	return nil
}

// GetValue implements hostv1.HostServer.
func (s *hostServer) GetValue(_ context.Context, r *hostv1.GetValueRequest) (*hostv1.GetValueResponse, error) {
	if err := checkKey(r.GetKey()); err != nil {
		return nil, err
	}
	value, found := s.Value(r.GetKey())
	return &hostv1.GetValueResponse{Value: value, Found: found}, nil
}

// SetValue implements hostv1.HostServer.
func (s *hostServer) SetValue(_ context.Context, r *hostv1.SetValueRequest) (*hostv1.SetValueResponse, error) {
	if err := checkKey(r.GetKey()); err != nil {
		return nil, err
	}
	if len(r.GetValue()) > maxValue {
		return nil, status.Errorf(codes.InvalidArgument, "a value must have at most %d bytes", maxValue)
	}
	s.Services.SetValue(r.GetKey(), r.GetValue())
	return &hostv1.SetValueResponse{}, nil
}

// DeleteValue implements hostv1.HostServer.
func (s *hostServer) DeleteValue(_ context.Context, r *hostv1.DeleteValueRequest) (*hostv1.DeleteValueResponse, error) {
	if err := checkKey(r.GetKey()); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, r.GetKey())
	return &hostv1.DeleteValueResponse{}, nil
}

// ListKeys implements hostv1.HostServer.
func (s *hostServer) ListKeys(_ context.Context, r *hostv1.ListKeysRequest) (*hostv1.ListKeysResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key := range s.values {
		if strings.HasPrefix(key, r.GetPrefix()) && key > r.GetAfter() {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	limit := maxKeys
	if n := int(r.GetLimit()); n > 0 && n < limit {
		limit = n
	}
	return &hostv1.ListKeysResponse{Keys: keys[:min(len(keys), limit)]}, nil
}

// Count implements hostv1.HostServer.
func (s *hostServer) Count(_ context.Context, r *hostv1.CountRequest) (*hostv1.CountResponse, error) {
	if !validCounter.MatchString(r.GetName()) || r.GetAdd() == 0 {
		return nil, status.Error(codes.InvalidArgument, "a counter's name must have 1 to 40 of a-z, 0-9 and _, and its increment must be at least 1")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counters[r.GetName()] += r.GetAdd()
	return &hostv1.CountResponse{}, nil
}

// PutMedia implements hostv1.HostServer.
func (s *hostServer) PutMedia(stream grpc.ClientStreamingServer[hostv1.PutMediaRequest, hostv1.PutMediaResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	head := first.GetHead()
	if head == nil {
		return status.Error(codes.InvalidArgument, "the first frame must be the head")
	}
	var body bytes.Buffer
	for {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if body.Write(frame.GetChunk()); body.Len() > maxMedia {
			return status.Error(codes.ResourceExhausted, "the media is too large")
		}
	}
	if head.GetSize() > 0 && head.GetSize() != uint64(body.Len()) {
		return status.Errorf(codes.InvalidArgument, "the media has %d bytes, but its head says %d", body.Len(), head.GetSize())
	}
	digest := s.Services.PutMedia(channel.Media{Name: head.GetName(), Type: head.GetMediaType()}, body.Bytes())
	return stream.SendAndClose(&hostv1.PutMediaResponse{Sha256: digest})
}

// GetMedia implements hostv1.HostServer.
func (s *hostServer) GetMedia(r *hostv1.GetMediaRequest, stream grpc.ServerStreamingServer[hostv1.GetMediaResponse]) error {
	if sum, err := hex.DecodeString(r.GetSha256()); err != nil || len(sum) != 32 {
		return status.Error(codes.InvalidArgument, "sha256 is not a digest")
	}
	m, body, found := s.Media(r.GetSha256())
	if !found {
		return status.Error(codes.NotFound, "no media with that digest")
	}
	head := &hostv1.MediaHead{Size: uint64(len(body)), MediaType: m.Type, Name: m.Name}
	err := stream.Send(&hostv1.GetMediaResponse{Frame: &hostv1.GetMediaResponse_Head{Head: head}})
	for chunk := range slices.Chunk(body, handshake.MaxChunk) {
		if err == nil {
			err = stream.Send(&hostv1.GetMediaResponse{Frame: &hostv1.GetMediaResponse_Chunk{Chunk: chunk}})
		}
	}
	return err
}
