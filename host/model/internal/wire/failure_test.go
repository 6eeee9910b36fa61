package wire

import (
	"errors"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/flynnhost/flynn/host/model"
)

// TestTheStatusDecides has bodies whose error type goes with the status, and bodies whose type does not.
func TestTheStatusDecides(t *testing.T) {
	for _, c := range []struct {
		status int
		kind   string
		want   model.Kind
	}{
		{400, "server_error", model.BadRequest},
		{400, "api_error", model.BadRequest},
		{400, "overloaded_error", model.BadRequest},
		{422, "timeout_error", model.BadRequest},
		{404, "server_error", model.BadRequest},
		{400, "rate_limit_error", model.BadRequest},
		{401, "server_error", model.Auth},
		{403, "api_error", model.Auth},
		{413, "server_error", model.TooLong},
		{500, "invalid_api_key", model.Overloaded},
		{503, "context_length_exceeded", model.Overloaded},
		{400, "invalid_api_key", model.Auth},
		{400, "context_length_exceeded", model.TooLong},
		{429, "insufficient_quota", model.Auth},
		{403, "rate_limit_exceeded", model.RateLimited},
		{413, "rate_limit_exceeded", model.RateLimited},
		{429, "server_error", model.RateLimited},
		{500, "server_error", model.Overloaded},
		{529, "overloaded_error", model.Overloaded},
		{503, "timeout_error", model.Timeout},
		{200, "api_error", model.Overloaded},
		{200, "authentication_error", model.Auth},
		{400, "nonsense", model.BadRequest},
		{418, "", model.BadRequest},
	} {
		if got := (failure{kind: c.kind, message: "what went wrong"}).classify(c.status); got != c.want {
			t.Errorf("status %d with type %q is %s, want %s", c.status, c.kind, got, c.want)
		}
	}
}

// TestALackOfThisMachine: a call for which there is no descriptor is not one to a server that cannot be reached.
func TestALackOfThisMachine(t *testing.T) {
	dial := func(err error) error { return &url.Error{Op: "Post", Err: &net.OpError{Op: "dial", Err: err}} }
	for _, c := range []struct {
		err  error
		want model.Kind
	}{
		{dial(os.NewSyscallError("socket", syscall.EMFILE)), model.Lacking},
		{dial(os.NewSyscallError("socket", syscall.ENFILE)), model.Lacking},
		{dial(os.NewSyscallError("connect", syscall.ENOBUFS)), model.Lacking},
		{dial(&net.DNSError{Err: "dial udp 127.0.0.53:53: socket: too many open files", Name: "api.example.com"}), model.Lacking},
		{dial(&net.DNSError{Err: "no such host", Name: "too many open files"}), model.Unreachable},
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), model.Unreachable},
	} {
		var e *model.Error
		if err := NewEdge("x", "", nil).Open(t.Context(), "m", c.err); !errors.As(err, &e) || e.Kind != c.want {
			t.Errorf("%v: got %v, want %s", c.err, err, c.want)
		}
	}
}
