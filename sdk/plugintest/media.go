package plugintest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

// Media is a media store of the host, in memory; its zero value is empty. Other services answer UNIMPLEMENTED.
type Media struct {
	hostv1.UnimplementedHostServer

	mu    sync.Mutex
	files map[string]File
}

// File is what a plugin has put into the store.
type File struct {
	Name string
	Type string // media type
	Data []byte
}

// Get returns the file of that SHA-256.
func (m *Media) Get(sha256 string) (File, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.files[sha256]
	return f, ok
}

const mediaToken = "token of a test"

// serve offers the store on a socket for as long as the test lasts.
func (m *Media) serve(t testing.TB) (endpoint, token string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "host")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(handshake.MaxFrame))
	hostv1.RegisterHostServer(s, m)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(lis)
	}()
	t.Cleanup(func() {
		s.Stop()
		<-served
	})
	return "unix:" + path, mediaToken
}

// PutMedia implements hostv1.HostServer.
func (m *Media) PutMedia(stream grpc.ClientStreamingServer[hostv1.PutMediaRequest, hostv1.PutMediaResponse]) error {
	if err := authorized(stream.Context()); err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	head := first.GetHead()
	if head == nil {
		return status.Error(codes.InvalidArgument, "the first frame has to be the head")
	}
	var data bytes.Buffer
	for {
		frame, err := stream.Recv()
		if err != nil {
			break
		}
		data.Write(frame.GetChunk())
	}
	if uint64(data.Len()) != head.GetSize() {
		return status.Errorf(codes.InvalidArgument, "%d bytes came, %d were announced", data.Len(), head.GetSize())
	}
	sum := sha256.Sum256(data.Bytes())
	name := hex.EncodeToString(sum[:])
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil {
		m.files = map[string]File{}
	}
	m.files[name] = File{Name: head.GetName(), Type: head.GetMediaType(), Data: data.Bytes()}
	return stream.SendAndClose(&hostv1.PutMediaResponse{Sha256: name})
}

// GetMedia implements hostv1.HostServer.
func (m *Media) GetMedia(r *hostv1.GetMediaRequest, stream grpc.ServerStreamingServer[hostv1.GetMediaResponse]) error {
	if err := authorized(stream.Context()); err != nil {
		return err
	}
	f, ok := m.Get(r.GetSha256())
	if !ok {
		return status.Error(codes.NotFound, "no such media")
	}
	head := &hostv1.MediaHead{Size: uint64(len(f.Data)), MediaType: f.Type, Name: f.Name}
	if err := stream.Send(&hostv1.GetMediaResponse{Frame: &hostv1.GetMediaResponse_Head{Head: head}}); err != nil {
		return err
	}
	for rest := f.Data; len(rest) > 0; {
		n := min(len(rest), handshake.MaxChunk)
		if err := stream.Send(&hostv1.GetMediaResponse{Frame: &hostv1.GetMediaResponse_Chunk{Chunk: rest[:n]}}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

func authorized(ctx context.Context) error {
	in, _ := metadata.FromIncomingContext(ctx)
	if got := in.Get("authorization"); len(got) != 1 || got[0] != "Bearer "+mediaToken {
		return status.Error(codes.Unauthenticated, "wrong token")
	}
	return nil
}
