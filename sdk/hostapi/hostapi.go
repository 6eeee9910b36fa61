// Package hostapi gives a running plugin access to services of the host: a small durable map, media, a path for webhooks, counters.
//
// A plugin finds its Host in its configuration (channel.Config.Host, tool.Config.Host) and uses the services that plugin.toml requests
// under permissions.host: "kv", "media", "webhook", "metric". All others return ErrNotGranted. The methods may be called from many
// goroutines. A request that is refused because of a rate limit has an error that RetryAfter understands. The SDK opens and closes the
// Host.
package hostapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/proto/handshake"
	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

// ErrNotGranted is wrapped by the error of every service that the manifest does not request.
var ErrNotGranted = errors.New("the host does not grant this: plugin.toml does not ask for it under permissions.host")

// Host is the host as seen by one process of a plugin.
type Host struct {
	conn   *grpc.ClientConn // nil if nothing is granted
	client hostv1.HostClient
}

// Dial prepares a connection to the host. Both arguments come from Configure; an empty endpoint means that nothing is granted.
func Dial(endpoint, token string) (*Host, error) {
	if endpoint == "" {
		return &Host{}, nil
	}
	conn, err := grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a unix socket in a folder that only the user can enter
		grpc.WithPerRPCCredentials(bearer(token)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(handshake.MaxFrame+maxBody), grpc.MaxCallSendMsgSize(handshake.MaxFrame)),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("reach the host: %w", err)
	}
	return &Host{conn, hostv1.NewHostClient(conn)}, nil
}

// Close ends the connection.
func (h *Host) Close() error {
	if h == nil || h.conn == nil {
		return nil
	}
	return h.conn.Close()
}

// service returns the client, or ErrNotGranted.
func (h *Host) service() (hostv1.HostClient, error) {
	if h == nil || h.conn == nil {
		return nil, ErrNotGranted
	}
	return h.client, nil
}

// failed adds the failed operation to an error.
func failed(doing string, err error) error {
	if status.Code(err) == codes.PermissionDenied {
		err = ErrNotGranted
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// RetryAfter returns how long to wait before repeating a request that the host refused because of a limit. It is false for every other
// error, and for requests that are too large in any case.
func RetryAfter(err error) (time.Duration, bool) {
	for ; err != nil; err = errors.Unwrap(err) {
		s, ok := status.FromError(err)
		if !ok || s.Code() != codes.ResourceExhausted {
			continue
		}
		for _, d := range s.Details() {
			if info, ok := d.(*errdetails.RetryInfo); ok {
				return info.GetRetryDelay().AsDuration(), true
			}
		}
	}
	return 0, false
}

// bearer is the token of one process.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (b bearer) RequireTransportSecurity() bool { return false }
