package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/internal/netaddr"
)

const (
	downloadTime = 10 * time.Minute // of all of it
	dialTime     = 15 * time.Second
	headerTime   = 30 * time.Second
	maxRedirects = 5
)

// download writes what a URL has into f and returns its digest.
func download(ctx context.Context, u *url.URL, f *os.File, o Obtain) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	transport := o.Transport
	if transport == nil {
		transport = publicTransport(o.Private)
	}
	client := http.Client{Transport: transport, CheckRedirect: sameScheme}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("download: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("download: %s", resp.Status)
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(resp.Body, maxPacked+1))
	if err == nil && n > maxPacked {
		err = fmt.Errorf("it has more than %d bytes", int64(maxPacked))
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// publicTransport connects to public addresses alone unless private ones are allowed. It looks at the address that is dialled, so
// that no name and no redirect leads elsewhere. A proxy would dial for us, so there is none.
func publicTransport(private bool) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTime}
	if !private {
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return publicAddress(address) }
	}
	return &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTime, ResponseHeaderTimeout: headerTime}
}

func publicAddress(address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if err := netaddr.Public(a.Addr()); err != nil {
		return fmt.Errorf("%w: say --allow-private if that is meant", err)
	}
	return nil
}

// sameScheme keeps a redirect from leaving https, and from leaving http for anything else.
func sameScheme(req *http.Request, via []*http.Request) error {
	switch {
	case req.URL.Scheme != via[0].URL.Scheme:
		return fmt.Errorf("a redirect leads from %s to %.20s", via[0].URL.Scheme, req.URL.Scheme)
	case req.URL.User != nil:
		return errors.New("a redirect holds a password")
	case len(via) >= maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	return nil
}
