package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
	"sync"

	"github.com/flynnhost/flynn/host/internal/redact"
)

// hopByHop are the fields that concern a single connection (RFC 9110, 7.6.1), and those that the proxy sets itself.
var hopByHop = [...]string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Expect", "Host", "Content-Length",
}

// strip removes the fields that must not be forwarded, including those listed in Connection.
func strip(h http.Header) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

// forward sends a plain request, rebuilt from its parsed form, and returns the response.
func (e *exchange) forward(ctx context.Context, r *request, addrs []netip.Addr) error {
	transport := &http.Transport{
		Proxy:                  nil,
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return e.proxy.connect(ctx, r, addrs) },
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: int64(e.proxy.config.MaxHeader),
	}
	out := (&http.Request{
		Method: r.Method, URL: r.url, Header: r.header, Host: r.field(),
		ContentLength: r.length, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	out.URL.Scheme, out.URL.Host = e.toHost(r, transport), net.JoinHostPort(r.Host.Name, portText(r.Port))
	strip(out.Header)
	if len(r.secrets) > 0 {
		wholePage(out.Header)
	}
	maps.Copy(out.Header, r.added)
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // otherwise net/http adds its own
	}
	if err := e.invite(r); err != nil {
		return err
	}
	if body := e.body(r); body != nil {
		out.Body = body
		defer body.wait()
		defer e.conn.Close() // otherwise the body's reader might wait for more
	}
	response, err := transport.RoundTrip(out)
	if err != nil {
		return e.answer(refuse(statusAbove(err), errors.New(redact.NewStream(r.secrets...).String(err.Error()))))
	}
	defer response.Body.Close()
	return e.respond(r, response)
}

// invite tells a waiting program to send its body (RFC 9110, 10.1.1).
func (e *exchange) invite(r *request) error {
	if !r.expect || r.minor == 0 || r.length == 0 {
		return nil
	}
	_, err := io.WriteString(e.conn, "HTTP/1.1 100 Continue\r\n\r\n")
	return err
}

// statusAbove returns the status for a failure of the upstream connection.
func statusAbove(err error) int {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

// respond copies the response as it arrives. Responses that only a proxy sends, or that change the protocol, are not forwarded.
func (e *exchange) respond(r *request, response *http.Response) error {
	if response.StatusCode < 200 || response.StatusCode == http.StatusProxyAuthRequired {
		return e.answer(refuse(http.StatusBadGateway, errors.New("the proxy does not forward this kind of answer from a server")))
	}
	strip(response.Header)
	response.Status, response.Trailer = "", nil // the program must not act on these
	if len(r.secrets) > 0 {
		blot(response.Header, r.secrets)
		if err := readable(response); err != nil {
			return e.answer(err)
		}
	}
	response.Close = true
	response.ProtoMajor, response.ProtoMinor = 1, r.minor
	if r.minor == 0 {
		response.TransferEncoding = nil // closing the connection ends the body
	}
	out := bufio.NewWriter(e.conn)
	body := redact.Reader(e.carry(response.Body, &e.down), r.secrets...)
	response.Body = &flushing{ReadCloser: response.Body, src: body, out: out}
	if err := response.Write(struct{ io.Writer }{out}); err != nil {
		return errors.Join(err, out.Flush())
	}
	return out.Flush()
}

// flushing flushes what was written before it reads more, so that a slow response arrives without delay.
type flushing struct {
	io.ReadCloser
	src io.Reader
	out *bufio.Writer
}

func (f *flushing) Read(p []byte) (int, error) {
	if err := f.out.Flush(); err != nil {
		return 0, err
	}
	return f.src.Read(p)
}

// requestBody is the body that a program sends. net/http reads it on another goroutine and closes it.
type requestBody struct {
	io.Reader
	once   sync.Once
	closed chan struct{}
}

// body returns the request's body, or nil if it has none.
func (e *exchange) body(r *request) *requestBody {
	if r.length == 0 {
		return nil
	}
	var src io.Reader = io.LimitReader(e.client, r.length)
	if r.length == chunked {
		src = httputil.NewChunkedReader(e.client)
	}
	return &requestBody{Reader: e.carry(src, &e.up), closed: make(chan struct{})}
}

func (b *requestBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

func (b *requestBody) wait() { <-b.closed }
