// Package fetch gets archives over http and https, for which something has to vouch.
//
// Start with Parse and Client. A digest at the end of the address vouches for the archive, or the signature of a pinned key within it,
// which the caller looks at: Trust says how strictly.
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

// IsURL tells a URL from a path.
func IsURL(name string) bool { return strings.Contains(name, "://") }

// Address is where an archive is, and its digest where the operator gave one.
type Address struct {
	url    *url.URL
	digest string
}

// Parse reads a URL of one of the schemes, with #sha256=DIGEST at its end or without.
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

// Trust returns how what comes from the address is to be trusted: without a digest it has to be signed by one of the keys of t.
func (a Address) Trust(t signing.Trust) (signing.Trust, error) {
	if a.digest != "" {
		return t, nil
	}
	if len(t.Keys) == 0 {
		return t, fmt.Errorf("nothing vouches for what comes from there: add #sha256=DIGEST, or pin the author's key in %s", t.Table)
	}
	t.Required = true
	return t, nil
}

// Client says how archives are fetched.
type Client struct {
	// Private allows an address that is not public: this machine, or the network that it is in.
	Private bool
	// Proxy has the proxy of the environment asked. It dials for us, so that Private has to be allowed too.
	Proxy bool
	// Transport replaces the usual one, for tests.
	Transport http.RoundTripper
}

// Get writes the archive to w, of at most that many bytes. What was written is of use only if there is no error.
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
		err = fmt.Errorf("what came has the digest %s", got)
	}
	return err
}

// transport connects to public addresses alone unless private ones are allowed. It looks at the address that is dialled, so that no
// name and no redirect leads elsewhere.
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
