// Package webapi is for plugins whose platform has a web API: HTTP calls that carry a credential, and whose outcome may be unknown.
//
// Start with NewClient and Call. Unsent distinguishes a call that was never sent from one whose outcome is unknown. Get opens a file; Owned
// and Private report where a credential may be sent. The package knows no platform, encodes nothing and repeats nothing.
package webapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// NewClient returns a client that does not follow redirects, which would send a credential to another server.
func NewClient() *http.Client {
	return &http.Client{
		Transport:     http.DefaultTransport.(*http.Transport).Clone(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Error is the error of a call without a complete response. It does not contain the address, which may include a credential.
type Error struct {
	Sent bool // the request, or a part of it, was written
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Unsent reports whether an error means that a request was never written, so that it certainly had no effect.
func Unsent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && !e.Sent
}

// Do makes a request. Its errors are Errors.
func Do(c *http.Client, r *http.Request) (*http.Response, error) {
	var written atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }}
	answer, err := c.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil {
		return nil, &Error{written.Load(), WithoutAddress(err)}
	}
	return answer, nil
}

// Call makes a request and reads its response, of at most most bytes. Its errors are Errors; a response of any status is not an error. The
// body of the returned response is closed.
func Call(c *http.Client, r *http.Request, most int64) (answer *http.Response, body []byte, err error) {
	if answer, err = Do(c, r); err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(io.LimitReader(answer.Body, most+1))
	if err == nil && int64(len(body)) > most {
		err = fmt.Errorf("the answer has more than %d bytes", most)
	}
	if err != nil {
		err = &Error{true, err}
	}
	return answer, body, err
}

// StatusError is the error of Get for a response with a status other than 200.
type StatusError struct{ Code int }

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answers %d %s", e.Code, http.StatusText(e.Code))
}

// Get opens a file, with a bearer token unless that is empty. The caller closes the body of the response.
func Get(ctx context.Context, c *http.Client, address, bearer string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, WithoutAddress(err)
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	answer, err := Do(c, r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, &StatusError{answer.StatusCode}
	}
	return answer, nil
}

// WithoutAddress returns the cause of an error of net/http or net/url, without the address.
func WithoutAddress(err error) error {
	if at, ok := errors.AsType[*url.Error](err); ok {
		return at.Err
	}
	return err
}

// RetryAfter parses the header of that name in both forms of RFC 9110, section 10.2.3. It is 0 if there is none.
func RetryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 && seconds < 1<<30 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// Base reports whether text is the address of an API: http or https, with a host, and without a user, a query or a fragment.
func Base(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// Private reports whether data sent to an address are private: the connection is encrypted, or stays on this machine.
func Private(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return false
	}
	switch u.Scheme {
	case "https", "wss":
		return true
	case "http", "ws":
		return Loopback(u.Hostname())
	}
	return false
}

// Loopback reports whether a host is this machine.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Owned reports whether an address belongs to a platform, so that it may be sent the platform's credential: it has the scheme and the host
// of the API's base, or is encrypted and within one of the domains.
func Owned(address, base string, domains ...string) bool {
	u, err := url.Parse(address)
	api, errBase := url.Parse(base)
	if err != nil || errBase != nil || u.User != nil || u.Host == "" {
		return false
	}
	if u.Scheme == api.Scheme && u.Host == api.Host {
		return true
	}
	host := strings.ToLower(u.Hostname())
	for _, domain := range domains {
		if u.Scheme == "https" && (host == domain || strings.HasSuffix(host, "."+domain)) {
			return true
		}
	}
	return false
}
