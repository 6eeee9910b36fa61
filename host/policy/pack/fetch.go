package pack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/install/signing"
)

const (
	fetchTime    = 2 * time.Minute
	maxRedirects = 5
)

// IsURL tells a URL from a path.
func IsURL(name string) bool { return strings.Contains(name, "://") }

// Fetch reads an archive from an https URL. A redirect has to be https as well. Something has to vouch for what comes: #sha256=DIGEST of
// the archive at the end of the URL, or a signature by a key of trust. A nil transport is the usual one.
func Fetch(ctx context.Context, address string, trust Trust, transport http.RoundTripper) (*Package, error) {
	u, digest, err := parseSource(address)
	if err != nil {
		return nil, err
	}
	if trust.Required = true; digest == "" && len(trust.Keys) == 0 {
		return nil, fmt.Errorf("fetch %s: nothing vouches for what comes from there: add #sha256=DIGEST, or pin the author's key in %s", u, trust.Table)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	client := http.Client{Transport: transport, CheckRedirect: onlyHTTPS}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch %s: %s", u, resp.Status)
	}
	packed, err := io.ReadAll(io.LimitReader(resp.Body, maxPacked+1))
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", u, err)
	}
	if got := signing.Digest(packed); digest != "" && got != digest {
		return nil, fmt.Errorf("fetch %s: what came has the digest %s", u, got)
	}
	p, err := Unpack(bytes.NewReader(packed))
	if err == nil && digest == "" {
		_, err = trust.Check(p.Signer)
	}
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", u, err)
	}
	return p, nil
}

// parseSource reads a URL and the digest at its end.
func parseSource(address string) (u *url.URL, digest string, err error) {
	u, err = url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, "", fmt.Errorf("%.200q is no https URL without a password", address)
	}
	fragment := u.Fragment
	u.Fragment, u.RawFragment = "", ""
	if fragment == "" {
		return u, "", nil
	}
	digest, ok := strings.CutPrefix(fragment, "sha256=")
	digest = strings.ToLower(digest)
	if sum, err := hex.DecodeString(digest); !ok || err != nil || len(sum) != sha256.Size {
		return nil, "", fmt.Errorf("#%.80s: want #sha256= and 64 digits", fragment)
	}
	return u, digest, nil
}

func onlyHTTPS(req *http.Request, via []*http.Request) error {
	switch {
	case req.URL.Scheme != "https":
		return errors.New("a redirect leaves https")
	case len(via) >= maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	return nil
}
