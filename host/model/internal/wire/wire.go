// Package wire has the parts that the clients of all vendors share: HTTP, the events of a stream, the classes of
// errors, tool names and call ids that the vendors accept, and the assembly of an answer from its pieces.
//
// Start with Edge. The package does not know the contents of requests and events; the providers do.
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/model"
)

// maxFailBody bounds the body of an error response, in bytes.
const maxFailBody = 64 << 10

// Edge is the HTTP side of one provider's client: transport, bounds and errors.
type Edge struct {
	provider string
	secret   config.Secret
	client   *http.Client
}

// NewEdge makes an Edge. A nil transport means a new one with the usual limits.
func NewEdge(provider string, secret config.Secret, transport http.RoundTripper) *Edge {
	if transport == nil {
		transport = newTransport()
	}
	return &Edge{provider: provider, secret: secret, client: &http.Client{
		Transport: transport,
		// A redirect would carry the key, which is in a header of the vendor's own, to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     90 * time.Second,
	}
}

// Close drops idle connections.
func (e *Edge) Close() error {
	e.client.CloseIdleConnections()
	return nil
}

// Post sends a request and returns a response that is a stream of events, bounded in size. Any other response becomes a *model.Error.
// The header holds the fields of the vendor; Post adds the rest.
func (e *Edge) Post(ctx context.Context, address string, header http.Header, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(data))
	if err != nil {
		cancel()
		return nil, err
	}
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", "flynn")
	resp, err := e.client.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || !isEventStream(resp.Header) {
		defer cancel()
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxFailBody)) // a cut body still has its status
		return nil, e.refused(resp, body)
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxAnswer, cancel: cancel}
	return resp, nil
}

func isEventStream(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && strings.EqualFold(kind, "text/event-stream")
}

// refused classes a response that is not an event stream.
func (e *Edge) refused(resp *http.Response, body []byte) *model.Error {
	failure := parseFailure(body)
	if resp.StatusCode != http.StatusOK || failure.explicit {
		err := e.classed(resp.StatusCode, failure)
		err.RetryAfter = RetryAfter(resp.Header, time.Now())
		return err
	}
	return e.fail(model.BadAnswer, resp.StatusCode,
		"the server answered with content type "+e.tidy(resp.Header.Get("Content-Type"))+", not an event stream; check base_url")
}
