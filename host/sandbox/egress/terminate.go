package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// terminate ends a tunnel's TLS in the proxy, because the request inside needs a credential. The proxy impersonates the host for one
// request; towards the host it is an ordinary client, which verifies the host. The request is parsed as strictly as a plain one, and its
// method and path are checked and logged.
func (e *exchange) terminate(ctx context.Context, outer *request) error {
	if _, err := io.WriteString(e.conn, "HTTP/1.1 200 Connection Established\r\n\r\n"); err != nil {
		return err
	}
	e.watch.Reset(e.proxy.config.GreetTimeout)
	greeting, err := e.greeting(outer)
	if greeting == nil {
		return err
	}
	leaf, err := e.proxy.config.Authority.leaf(outer.Host)
	if err != nil {
		return err
	}
	inside := tls.Server(&replayed{ReadWriteCloser: e.conn, src: io.MultiReader(bytes.NewReader(greeting), e.client)}, &tls.Config{
		Certificates: []tls.Certificate{*leaf}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		SessionTicketsDisabled: true,
	})
	if err := inside.HandshakeContext(ctx); err != nil {
		// Most likely the program does not trust the authority, which the operator will want to know.
		d := decision(outer)
		d.Reason = fmt.Sprintf("the program ended the TLS handshake with the proxy: %v", err)
		e.proxy.decide(d)
		return nil
	}
	e.touch()
	e.conn, e.client = inside, bufio.NewReader(inside)
	err = e.inner(ctx, outer)
	return errors.Join(err, inside.CloseWrite())
}

// inner handles the request inside a tunnel.
func (e *exchange) inner(ctx context.Context, outer *request) error {
	head, err := readHead(e.client, e.proxy.config.MaxHeader)
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	var r *request
	if err == nil {
		r, err = parseInner(head, outer.Target)
	}
	if err != nil {
		d := decision(outer)
		d.Reason = err.Error()
		e.proxy.decide(d)
		return e.answer(err)
	}
	return e.pass(ctx, r)
}

// replayed is a connection whose first bytes have been read already. Package tls requires a net.Conn; the exchange sets the deadlines.
type replayed struct {
	io.ReadWriteCloser
	src io.Reader
}

func (c *replayed) Read(p []byte) (int, error) { return c.src.Read(p) }

func (*replayed) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (*replayed) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (*replayed) SetDeadline(time.Time) error      { return nil }
func (*replayed) SetReadDeadline(time.Time) error  { return nil }
func (*replayed) SetWriteDeadline(time.Time) error { return nil }

// toHost prepares the transport for the request's host, with verified TLS if the request is to be encrypted, and returns the scheme.
func (e *exchange) toHost(r *request, transport *http.Transport) (scheme string) {
	if c, ok := e.proxy.placed(r.Host); !r.encrypted || ok && c.Plain {
		return "http"
	}
	transport.TLSClientConfig = &tls.Config{
		RootCAs: e.proxy.config.Roots, ServerName: r.Host.Name, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}
	transport.TLSHandshakeTimeout = e.proxy.config.GreetTimeout
	return "https"
}
