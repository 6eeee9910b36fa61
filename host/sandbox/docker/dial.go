package docker

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/docker/docker/client"

	"github.com/flynnhost/flynn/host/sandbox/engine"
)

// dialer opens connections to one engine.
type dialer func(ctx context.Context) (net.Conn, error)

// dialer returns the one for an address. TLS is spoken below the client, which then has only one way to connect: its own
// ways differ between requests and streams, and some of them know no deadline.
func (c Config) dialer(e engine.Address) (dialer, error) {
	switch e.Scheme {
	case "unix":
		return plain("unix", e.Path), nil
	case "ssh":
		return sshDialer(e, c.SSH), nil
	}
	secure, err := c.tls(e)
	if err == nil {
		err = e.CheckSecurity(secure != nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: set engine_ca, engine_cert and engine_key in [sandbox], or DOCKER_CERT_PATH, or use ssh://", err)
	}
	dial := plain("tcp", e.HostPort())
	if secure == nil {
		return dial, nil
	}
	return overTLS(dial, secure), nil
}

func plain(network, address string) dialer {
	return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, address) }
}

// overTLS has both sides show who they are.
func overTLS(dial dialer, config *tls.Config) dialer {
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return secure, nil
	}
}

// tls reads the certificates, or returns nil where none are configured. The engine's is checked always.
func (c Config) tls(e engine.Address) (*tls.Config, error) {
	if dir := os.Getenv(client.EnvOverrideCertPath); dir != "" && c.CA == "" && c.Cert == "" && c.Key == "" {
		c.CA, c.Cert, c.Key = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	}
	if cmp.Or(c.CA, c.Cert, c.Key) == "" {
		return nil, nil
	}
	authority, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, err
	}
	own, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", c.CA)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: e.Host, RootCAs: roots, Certificates: []tls.Certificate{own}}, nil
}

// newClient returns a client that connects by dial and nothing else, proxies of the environment included. Of an answer that it reads as
// a whole it takes so many bytes at most.
func newClient(e engine.Address, dial dialer, most int64) (*client.Client, error) {
	transport := &http.Transport{}
	host := "tcp://" + e.HostPort() // only for a request's Host
	if e.Scheme == "unix" {
		host = "unix://" + e.Path
	}
	way := &http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}
	api, err := client.NewClientWithOpts(
		client.WithHTTPClient(way),
		client.WithHost(host), client.WithVersionFromEnv(), client.WithAPIVersionNegotiation(),
	)
	if err != nil {
		return nil, err
	}
	way.Transport = bounded{way.Transport, most} // only now: the client wants to know the one below
	transport.Proxy = nil
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := dial(ctx)
		if deadline, is := ctx.Deadline(); err == nil && is && ctx.Value(handshakeKey{}) != nil {
			err = conn.SetDeadline(deadline)
		}
		return conn, err
	}
	return api, nil
}

// handshakeKey marks the context of a request whose connection becomes a stream. The client waits for the answer to such
// a request for as long as it takes, whatever the context says, so that its connection gets a deadline, which has to
// be lifted afterwards.
type handshakeKey struct{}

func handshake(ctx context.Context) context.Context {
	return context.WithValue(ctx, handshakeKey{}, true)
}

// overdue gives the end of a connection's deadline the name that a context's has.
func overdue(ctx context.Context, err error) error {
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		if deadline, is := ctx.Deadline(); is && !time.Now().Before(deadline) {
			return context.DeadlineExceeded
		}
	}
	return err
}

// patience is how long the engine has for a sign of life.
func (d *Driver) patience() time.Duration {
	if d.engine.Scheme == "ssh" {
		return sshTimeout
	}
	return pingTimeout
}
