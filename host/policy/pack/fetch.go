package pack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	fetchTime    = 2 * time.Minute
	maxRedirects = 5
)

// IsURL tells a URL from a path.
func IsURL(name string) bool { return strings.Contains(name, "://") }

// Fetch reads an archive from an https URL. A redirect has to be https as well. A nil transport is the
// usual one.
func Fetch(ctx context.Context, address string, transport http.RoundTripper) (*Package, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("%.200q is no https URL without a password", address)
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
		return nil, fmt.Errorf("fetch %s: %s", address, resp.Status)
	}
	p, err := Unpack(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return p, nil
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
