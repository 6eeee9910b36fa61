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

// dialer returns the dialer for an address. TLS is handled below the client, because the client's own code differs between requests and
// streams and ignores some deadlines.
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

// overTLS adds TLS with certificates on both sides.
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

// tls reads the certificates, or returns nil if none are configured. The engine's certificate is always verified.
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

// newClient returns a client that connects with dial only and ignores proxies in the environment.
func newClient(e engine.Address, dial dialer) (*client.Client, error) {
	transport := &http.Transport{}
	host := "tcp://" + e.HostPort() // only for the Host header
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
	way.Transport = &bounded{way.Transport, maxAnswer} // set last, because the client inspects the transport
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

// handshakeKey marks the context of a request whose connection becomes a stream. The client ignores the context while it waits for the
// answer to such a request, so the connection gets a deadline, which is removed afterwards.
type handshakeKey struct{}

func handshake(ctx context.Context) context.Context {
	return context.WithValue(ctx, handshakeKey{}, true)
}

// overdue converts the error of a connection's deadline to that of a context's.
func overdue(ctx context.Context, err error) error {
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		if deadline, is := ctx.Deadline(); is && !time.Now().Before(deadline) {
			return context.DeadlineExceeded
		}
	}
	return err
}

// patience is how long the engine may take to give a sign of life.
func (d *Driver) patience() time.Duration {
	if d.engine.Scheme == "ssh" {
		return sshTimeout
	}
	return pingTimeout
}
