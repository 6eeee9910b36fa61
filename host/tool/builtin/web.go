package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html/charset"

	"github.com/flynnhost/flynn/host/internal/netaddr"
	"github.com/flynnhost/flynn/host/internal/netclient"
	"github.com/flynnhost/flynn/host/tool"
	"github.com/flynnhost/flynn/host/tool/pdftext"
)

// WebConfig says what web.fetch may reach. Its zero value, the public internet, is the only one in production.
type WebConfig struct {
	// Ports are the ports that a URL may name; 80 and 443 if empty.
	Ports []uint16
	// Timeout bounds one fetch with all its redirects. Default: 20 s
	Timeout time.Duration
	// PDF is the command that calls pdftext.Serve; without it PDFs are refused.
	PDF []string

	// Allow checks the address that is about to be dialled. Default: public ones that are not this machine's own
	Allow func(netip.AddrPort) error
	// own returns this machine's addresses. Default: netaddr.Own
	own func() ([]netip.Addr, error)
	// transport is changed by tests of this package only.
	transport func(*http.Transport)
}

// Bounds of one fetch.
const (
	maxBody      = 2 << 20 // bytes, after decompression
	maxRedirects = 5
	maxURL       = 4096
)

type fetchArgs struct {
	URL    string `json:"url"`
	Whole  bool   `json:"whole"`
	Offset int    `json:"offset"`
}

func webFetch(c WebConfig) tool.Tool {
	f := newFetcher(c)
	return function[fetchArgs]{
		spec: tool.Spec{
			Name:        "web.fetch",
			Description: "Fetch a public web page, PDF or text over http or https and return it as text: of a page its article. Long texts come in pieces; the last line says where to go on.",
			Effect:      tool.Network,
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["url"],"properties":{
				"url":{"type":"string","minLength":1,"maxLength":4096},
				"whole":{"type":"boolean","description":"the page with its menus and links"},
				"offset":{"type":"integer","minimum":0,"maximum":16777216,"description":"into the text, in bytes; where the last piece said to go on"}}}`),
		},
		run: f.run,
	}
}

// fetcher is an HTTP client that reaches public addresses only.
type fetcher struct {
	config WebConfig
	client *http.Client
}

func newFetcher(c WebConfig) *fetcher {
	if len(c.Ports) == 0 {
		c.Ports = []uint16{80, 443}
	}
	if c.Timeout <= 0 {
		c.Timeout = 20 * time.Second
	}
	if c.own == nil {
		c.own = netaddr.Own
	}
	if c.Allow == nil {
		c.Allow = func(a netip.AddrPort) error { return netaddr.PublicAndNotOf(c.own, a.Addr()) }
	}
	f := &fetcher{config: c}
	transport := netclient.Transport(c.Allow)
	if c.transport != nil {
		c.transport(transport)
	}
	f.client = &http.Client{Transport: transport, CheckRedirect: f.checkRedirect}
	return f
}

func (f *fetcher) checkRedirect(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if err := f.checkURL(next.URL); err != nil {
		return err
	}
	if via[len(via)-1].URL.Scheme == "https" && next.URL.Scheme != "https" {
		return errors.New("redirect from https to http is refused")
	}
	return nil
}

// checkURL checks all of a URL but its host, whose address is checked when it is dialled.
func (f *fetcher) checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("scheme %q is refused; use http or https", u.Scheme)
	case u.User != nil:
		return errors.New("a user name or password in the URL is refused")
	case u.Hostname() == "":
		return errors.New("the URL names no host")
	case len(u.String()) > maxURL:
		return fmt.Errorf("the URL is longer than %d bytes", maxURL)
	}
	text := u.Port()
	if text == "" {
		text = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || !slices.Contains(f.config.Ports, uint16(port)) {
		return fmt.Errorf("port %s is refused; allowed: %v", text, f.config.Ports)
	}
	return nil
}

func (f *fetcher) run(ctx context.Context, call tool.Call, args fetchArgs) (tool.Result, error) {
	u, err := url.Parse(args.URL)
	if err != nil {
		return tool.Failure("fetch: %v", err), nil
	}
	if err := f.checkURL(u); err != nil {
		return tool.Failure("fetch %s: %v", u.Redacted(), err), nil
	}
	timed, cancel := context.WithTimeout(ctx, f.config.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(timed, http.MethodGet, u.String(), nil)
	if err != nil {
		return tool.Failure("fetch: %v", err), nil
	}
	request.Header.Set("User-Agent", "Flynn")
	request.Header.Set("Accept", "text/html, text/*, application/json, application/pdf, application/xml;q=0.9")
	response, err := f.client.Do(request)
	if err != nil && ctx.Err() != nil {
		return tool.Result{}, ctx.Err()
	}
	if err != nil {
		result := tool.Failure("%v", err)
		if spoke(err, u) {
			result.Labels = []string{hostLabel(u)}
		}
		return result, nil
	}
	defer response.Body.Close()
	result := f.result(timed, response, args)
	if ctx.Err() != nil {
		return tool.Result{Labels: result.Labels}, ctx.Err()
	}
	return result, nil
}

// result turns a response of any status into text, with the labels of its hosts.
func (f *fetcher) result(ctx context.Context, response *http.Response, args fetchArgs) tool.Result {
	final := response.Request.URL
	result := tool.Result{IsError: response.StatusCode >= 400, Labels: hosts(response)}
	text, note, err := f.readText(ctx, response, args.Whole)
	if err != nil {
		result.Text, result.IsError = fmt.Sprintf("fetch %s: %v", final.Redacted(), err), true
		return result
	}
	result.Text = fmt.Sprintf("%s\nHTTP %s%s\n\n%s", final.Redacted(), response.Status, note, page(text, args.Offset))
	return result
}

// spoke reports whether the error of a fetch may contain text of a server, such as the target of a redirect or a malformed answer. It
// cannot if the first connection failed.
func spoke(err error, first *url.URL) bool {
	var at *url.Error
	var dial *net.OpError
	if errors.As(err, &at) && at.URL != first.String() {
		return true
	}
	return !errors.As(err, &dial) || dial.Op != "dial"
}

// hostLabel is the label of a host. It drops the dot of a full name, so that a host has one label.
func hostLabel(u *url.URL) string {
	return "web:" + strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

// hosts labels the host of every response, redirects included, as each chose the next address.
func hosts(response *http.Response) []string {
	var labels []string
	for r := response; r != nil; r = r.Request.Response {
		label := hostLabel(r.Request.URL)
		if !slices.Contains(labels, label) {
			labels = append(labels, label)
		}
	}
	return labels
}

// readText reads a body as UTF-8 text: of HTML the article or the whole page, and of a PDF its text. note says which part of it that is.
func (f *fetcher) readText(ctx context.Context, response *http.Response, whole bool) (text, note string, err error) {
	contentType := response.Header.Get("Content-Type")
	isPDF := len(f.config.PDF) > 0 && strings.HasPrefix(contentType, "application/pdf")
	limit := maxBody
	if isPDF {
		limit = pdftext.MaxFile
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	if err != nil {
		return "", "", err
	}
	over := len(raw) > limit
	raw = raw[:min(len(raw), limit)]
	switch {
	case isPDF && over:
		return "", "", fmt.Errorf("the PDF is longer than %d bytes", limit)
	case isPDF:
		text, err = pdftext.Read(ctx, f.config.PDF, raw)
		return text, "", err
	case contentType == "":
		contentType = http.DetectContentType(raw)
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil || !isText(kind) {
		return "", "", fmt.Errorf("content type %q is not text", contentType)
	}
	encoding, _, _ := charset.DetermineEncoding(raw[:min(len(raw), 1024)], contentType)
	decoded, err := encoding.NewDecoder().Bytes(raw)
	if err != nil {
		return "", "", fmt.Errorf("decode text: %w", err)
	}
	text = string(decoded)
	if kind == "text/html" || kind == "application/xhtml+xml" {
		text, note = pageText(text, response.Request.URL, whole)
	}
	if over {
		text = JoinLines(text, fmt.Sprintf("[the page is longer than %d bytes; the rest was not read]", maxBody))
	}
	return text, note, nil
}

// pageText returns the text of the article of a page, or of the whole page.
func pageText(page string, base *url.URL, whole bool) (text, note string) {
	if !whole {
		if text, ok := article(page, base); ok {
			return text, " (the article; the page has more: whole)"
		}
	}
	return htmlText(page, base), ""
}

func isText(kind string) bool {
	switch kind {
	case "application/json", "application/xml", "application/javascript", "application/x-ndjson", "application/yaml", "application/toml":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml")
}
