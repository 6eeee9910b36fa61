package search

import (
	"bytes"
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
	"unicode"

	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/internal/netaddr"
	"github.com/flynnhost/flynn/host/internal/netclient"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/sdk/cut"
)

// wire is how to talk to the services of one provider.
type wire struct {
	url    string  // without a base_url
	price  float64 // list price of a search, in US dollars
	keyed  bool    // at its own url
	encode func(s *Service, q Query) request
	decode func(s *Service, body []byte) (found, error)
	// refusal tells what a status means that is not told apart by itself; code is what the service says in its own words. Empty means BadAnswer.
	refusal func(status int, code string) Kind
}

type request struct {
	path   string
	query  url.Values // GET
	body   any        // POST, as JSON
	header http.Header
}

// raw is a result as a service sent it.
type raw struct{ URL, Title, Text, Published string }

type found struct {
	results []raw
	usage   model.Usage // of a model; CostUSD is what the service says that it cost, or 0
	failed  Kind        // what a service says in an answer that is none of HTTP's failures
}

func wires() map[string]wire {
	return map[string]wire{
		"searxng": searxng(), "brave": brave(), "tavily": tavily(), "exa": exa(), "anthropic": anthropic(), "openai": openai(),
	}
}

// client returns a client that follows no redirect, so that a key reaches the service that it belongs to and nobody else. An address that the owner
// has configured may be a private one.
func client(private bool) *http.Client {
	allow := func(a netip.AddrPort) error { return netaddr.PublicAndNotOf(netaddr.Own, a.Addr()) }
	if private {
		allow = func(netip.AddrPort) error { return nil }
	}
	return &http.Client{
		Transport:     netclient.Transport(allow),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (s *Service) ask(ctx context.Context, q Query) (Answer, *Error) {
	if s.wire.keyed && s.key == "" && s.base.String() == s.wire.url {
		return Answer{}, s.fault(NoKey, "it has no key")
	}
	r, err := s.request(ctx, q)
	if err != nil {
		return Answer{}, s.fault(BadAnswer, "its address is wrong")
	}
	response, err := s.client.Do(r)
	if err != nil {
		return Answer{}, s.unreachable(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return Answer{}, s.fault(Unreachable, "its answer broke off")
	case len(body) > maxAnswer:
		return Answer{}, s.fault(BadAnswer, fmt.Sprintf("its answer is longer than %d bytes", maxAnswer))
	}
	if response.StatusCode != http.StatusOK {
		return Answer{}, s.refused(response, body)
	}
	if isPage(response, body) {
		return Answer{}, s.page(response, body)
	}
	f, err := s.wire.decode(s, body)
	if err != nil {
		return Answer{}, s.fault(BadAnswer, "its answer is not in the form of "+s.Name)
	}
	answer := Answer{Results: q.results(f.results), Usage: s.charge(f.usage)}
	switch {
	case len(answer.Results) > 0:
		return answer, nil
	case f.failed != "":
		return answer, s.fault(f.failed, "")
	}
	return answer, s.fault(Empty, "")
}

func (s *Service) request(ctx context.Context, q Query) (*http.Request, error) {
	want := s.wire.encode(s, q)
	u := s.base.JoinPath(want.path)
	method, body := http.MethodGet, io.Reader(nil)
	if want.body != nil {
		encoded, err := jsonform.Marshal(want.body)
		if err != nil {
			return nil, err
		}
		method, body = http.MethodPost, bytes.NewReader(encoded)
	} else {
		u.RawQuery = want.query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if want.header != nil {
		r.Header = want.header
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "Flynn")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// charge completes the usage of an answer with its cost.
func (s *Service) charge(u model.Usage) model.Usage {
	switch {
	case s.model.Model != "":
		u.CostUSD = model.Cost(u, s.model.Prices) + s.price
	case u.CostUSD == 0 || !s.listed:
		u.CostUSD, u.Estimated = s.price, s.listed
	}
	return u
}

// words describe a failure that needs no more words.
func words(k Kind) string {
	return map[Kind]string{
		Empty:     "it found nothing",
		NoKey:     "its key is refused",
		Challenge: "it takes Flynn for a robot and wants a person to prove that he is one",
		Quota:     "its quota is used up, or too many searches were made at a time",
		NoJSON:    "it does not answer in JSON: add json to the formats below search in its settings.yml",
		BadAnswer: "its answer is not one to a search",
	}[k]
}

func (s *Service) fault(k Kind, text string) *Error {
	e := &Error{Service: s.Name, Kind: k, Words: text}
	if text == "" {
		e.Words = words(k)
	}
	if k == NoKey || k == Challenge {
		e.rest = 10 * time.Minute
	}
	return e
}

// unreachable describes a request without an answer, in the words of this machine only: those of a malformed answer may be of the service.
func (s *Service) unreachable(err error) *Error {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return s.fault(Unreachable, "it cannot be reached: "+dial.Err.Error())
	}
	return s.fault(Unreachable, "it does not answer")
}

// refused tells what an answer with a status other than 200 means.
func (s *Service) refused(response *http.Response, body []byte) *Error {
	status := response.StatusCode
	if isChallenge(response, body) {
		return s.status(Challenge, status)
	}
	k := s.wire.refusal(status, code(body))
	switch {
	case k != "":
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		k = NoKey
	case status == http.StatusTooManyRequests, status == http.StatusPaymentRequired:
		k = Quota
	case status >= 500:
		k = Unreachable
	default:
		k = BadAnswer
	}
	e := s.status(k, status)
	if k == Quota {
		e.rest = time.Hour
		if status == http.StatusTooManyRequests {
			e.rest = retryAfter(response.Header)
		}
	}
	return e
}

func (s *Service) status(k Kind, status int) *Error {
	text := words(k)
	if k == Unreachable {
		text = "it has a failure of its own"
	}
	return s.fault(k, fmt.Sprintf("%s (HTTP %d)", text, status))
}

// page tells what a page in the place of an answer means.
func (s *Service) page(response *http.Response, body []byte) *Error {
	if isChallenge(response, body) {
		return s.fault(Challenge, "")
	}
	return s.fault(BadAnswer, "it answers with a page: check its address")
}

func isPage(response *http.Response, body []byte) bool {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return kind == "text/html" || bytes.HasPrefix(bytes.TrimSpace(body), []byte("<"))
}

// isChallenge reports whether an answer is a page that wants a proof of a person.
func isChallenge(response *http.Response, body []byte) bool {
	if response.Header.Get("Cf-Mitigated") == "challenge" {
		return true
	}
	if !isPage(response, body) {
		return false
	}
	text := strings.ToLower(string(body[:min(len(body), 64<<10)]))
	signs := []string{"captcha", "cf-chl", "challenge-platform", "just a moment", "unusual traffic", "not a robot", "you are human", "anubis"}
	return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(text, sign) })
}

// code returns the code of an error in the forms that the services use; empty if there is none.
func code(body []byte) string {
	var told struct {
		Error json.RawMessage `json:"error"`
		Tag   string          `json:"tag"`
	}
	if json.Unmarshal(body, &told) != nil {
		return ""
	}
	var inner struct{ Code, Type string }
	if json.Unmarshal(told.Error, &inner) == nil && inner.Code+inner.Type != "" {
		if inner.Code != "" {
			return inner.Code
		}
		return inner.Type
	}
	return told.Tag
}

// retryAfter is how long a service asks to wait, in seconds; a minute if it does not say.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n <= 0 {
		return time.Minute
	}
	return time.Duration(min(n, 24*60*60)) * time.Second
}

// line brings a foreign text onto one line, without what does not show, and bounds it.
func line(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, cut.Head(text, 4*most))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		return cut.Head(text, most) + "…"
	}
	return text
}
