package main

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// dialHTTP is the way to a server of the streamable HTTP transport.
func (s settings) dialHTTP(context.Context) (mcp.Transport, func() error, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, nil, err
	}
	inner := http.DefaultTransport.(*http.Transport).Clone()
	inner.Proxy = nil                       // the environment holds none, see the host
	inner.ResponseHeaderTimeout = time.Hour // a call may take long before its first byte; its context bounds it
	client := &http.Client{
		Transport: &transport{inner: inner, origin: u, settings: s},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			return fmt.Errorf("the server redirects to %.80q, and nothing is sent there: write that address if it is right", r.URL.Host)
		},
	}
	end := func() error { inner.CloseIdleConnections(); return nil }
	return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxFrame}, end, nil
}

// transport adds the configured headers to each request and bounds the answers.
type transport struct {
	inner    http.RoundTripper
	origin   *url.URL
	settings settings
}

// RoundTrip implements http.RoundTripper.
func (d *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != d.origin.Scheme || r.URL.Host != d.origin.Host {
		return nil, fmt.Errorf("a request to %.80q, which is not the server", r.URL.Host)
	}
	r = r.Clone(r.Context())
	for name, value := range d.settings.Headers {
		r.Header.Set(name, value)
	}
	if bearer := d.settings.secrets["bearer"]; bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := d.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" { // events are bounded one by one
		resp.Body = &bounded{ReadCloser: resp.Body, left: maxFrame}
	}
	return resp, nil
}

// bounded is a body that fails when it is too long, so that a part is never taken for the whole.
type bounded struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the server's answer has more than %d bytes", maxFrame)
	}
	return n, err
}
