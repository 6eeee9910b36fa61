// Package fetch downloads archives over http and https that are authenticated.
//
// Start with Parse and Client. An archive is authenticated by the digest at the end of its URL, or by a signature with a pinned key in it,
// which the caller checks: Trust says how strictly.
package fetch

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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/signing"
	"github.com/flynnhost/flynn/host/internal/netaddr"
)

const (
	downloadTime = 10 * time.Minute // of all of it
	dialTime     = 15 * time.Second
	headerTime   = 30 * time.Second
	maxRedirects = 5
)

// IsURL reports whether name is a URL and not a path.
func IsURL(name string) bool { return strings.Contains(name, "://") }

// Address is the URL of an archive, with its digest if the operator gave one.
type Address struct {
	url    *url.URL
	digest string
}

// Parse parses a URL of one of the schemes, with or without #sha256=DIGEST at its end.
func Parse(text string, schemes ...string) (Address, error) {
	u, err := url.Parse(text)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Host == "" || u.User != nil {
		return Address{}, fmt.Errorf("%.200q: must be an %s URL without a password", text, strings.Join(schemes, " or "))
	}
	fragment := u.Fragment
	u.Fragment, u.RawFragment = "", ""
	if fragment == "" {
		return Address{url: u}, nil
	}
	sum, ok := strings.CutPrefix(fragment, "sha256=")
	if sum = strings.ToLower(sum); !ok || !digest.Valid(sum) {
		return Address{}, fmt.Errorf("#%.80s: must be #sha256= and 64 digits", fragment)
	}
	return Address{u, sum}, nil
}

// String is the URL without the digest.
func (a Address) String() string { return a.url.String() }

// Trust returns the trust for the archive at the address: without a digest it must be signed by one of the keys of t.
func (a Address) Trust(t signing.Trust) (signing.Trust, error) {
	if a.digest != "" {
		return t, nil
	}
	if len(t.Keys) == 0 {
		return t, fmt.Errorf("the download is not authenticated: add #sha256=DIGEST, or pin the author's key in %s", t.Table)
	}
	t.Required = true
	return t, nil
}

// Client downloads archives.
type Client struct {
	// Private allows addresses that are not public: this machine and its network.
	Private bool
	// Proxy uses the proxy of the environment. It needs Private as well, because the proxy decides which address it connects to.
	Proxy bool
	// Transport replaces the usual one, for tests.
	Transport http.RoundTripper
}

// Get writes the archive, of at most that many bytes, to w. After an error the written bytes are not to be used.
func (c Client) Get(ctx context.Context, a Address, w io.Writer, most int64) error {
	ctx, cancel := context.WithTimeout(ctx, downloadTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.String(), nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: c.transport(), CheckRedirect: sameScheme}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("download: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("download: %s", resp.Status)
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, h), io.LimitReader(resp.Body, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	if got := hex.EncodeToString(h.Sum(nil)); err == nil && a.digest != "" && got != a.digest {
		err = fmt.Errorf("the downloaded file has the digest %s", got)
	}
	return err
}

// transport connects only to public addresses unless private ones are allowed. It checks the address that is dialled, so that no name and no
// redirect can lead elsewhere.
func (c Client) transport() http.RoundTripper {
	if c.Transport != nil {
		return c.Transport
	}
	dialer := &net.Dialer{Timeout: dialTime}
	if !c.Private {
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return publicAddress(address) }
	}
	t := &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTime, ResponseHeaderTimeout: headerTime}
	if c.Proxy {
		t.Proxy = http.ProxyFromEnvironment
	}
	return t
}

func publicAddress(address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if err := netaddr.Public(a.Addr()); err != nil {
		return fmt.Errorf("%w: add --allow-private if that is intended", err)
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
