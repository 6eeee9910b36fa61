package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/webapi"
)

const (
	callTimeout = 20 * time.Second
	maxAnswer   = 1 << 20 // bytes of one answer of the Graph API
)

// graph is the way to Meta's Graph API.
type graph struct {
	http               *http.Client
	base, phone, token string
}

func newGraph(s settings) *graph {
	return &graph{http: webapi.NewClient(), base: s.APIURL, phone: s.PhoneNumberID, token: s.token}
}

// graphError is an error that Meta answers.
type graphError struct {
	Code    int    `json:"code"`
	Subcode int    `json:"error_subcode"`
	Title   string `json:"title"` // of a status
	Message string `json:"message"`
	Data    struct {
		Details string `json:"details"`
	} `json:"error_data"`

	status int           // of HTTP; 0 in a webhook
	after  time.Duration // Retry-After
}

func (e *graphError) Error() string {
	text := cmp.Or(e.Message, e.Title)
	if e.Data.Details != "" && e.Data.Details != text {
		text += ": " + e.Data.Details
	}
	if e.Code == 0 && text == "" {
		return fmt.Sprintf("meta answers %d", e.status)
	}
	return fmt.Sprintf("meta says %d: %s", e.Code, text)
}

// post sends a JSON object and reads the answer into out.
func (g *graph) post(ctx context.Context, path string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	return g.do(ctx, http.MethodPost, path, "application/json", bytes.NewReader(text), int64(len(text)), out)
}

func (g *graph) get(ctx context.Context, path string, out any) error {
	return g.do(ctx, http.MethodGet, path, "", nil, 0, out)
}

func (g *graph) do(ctx context.Context, method, path, kind string, body io.Reader, size int64, out any) error {
	r, err := http.NewRequestWithContext(ctx, method, g.base+"/"+path, body)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	r.ContentLength = size
	r.Header.Set("Authorization", "Bearer "+g.token)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	resp, text, err := webapi.Call(g.http, r, maxAnswer)
	if err != nil {
		return fmt.Errorf("reach meta: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(resp, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("read meta's answer: %w", err)
	}
	return nil
}

// refusal reads an error out of an answer; a page of a proxy has none.
func refusal(resp *http.Response, text []byte) error {
	var body struct {
		Error graphError `json:"error"`
	}
	_ = json.Unmarshal(text, &body)
	e := body.Error
	e.status = resp.StatusCode
	e.after = min(webapi.RetryAfter(resp.Header), 24*time.Hour)
	return &e
}

const (
	soon      = 5 * time.Second
	later     = 5 * time.Minute
	permanent = time.Hour // until the next try of a send that needs a person's help first
)

// waits returns the errors after which the message was surely not sent and may be sent again, with the wait for an answer without one. Source:
// Meta, WhatsApp Cloud API, error codes.
func waits() map[int]time.Duration {
	return map[int]time.Duration{
		2: soon, 131000: soon, 131016: soon, 133004: soon, 131057: later, // services that are down, an account in maintenance
		4: later, 80007: later, 130429: soon, 131048: later, 131056: 10 * time.Second, 133016: later, // limits
	}
}

// words returns what a person can do about an error.
func words(code int) string {
	switch code {
	case 0, 190:
		return "the access token is no longer valid: make one for a system user"
	case 3, 10, 200:
		return "the access token lacks the permission whatsapp_business_messaging"
	case 131030:
		return "the number is not on the list of a test number's recipients"
	case 131031, 368:
		return "Meta has locked the account"
	case 131042:
		return "something is wrong with the account's payment"
	case 131047:
		return "more than 24 hours have passed since the person last wrote; only a template can be sent: set the key template"
	case 131026:
		return "the person cannot be reached over WhatsApp"
	case 131049:
		return "WhatsApp holds the message back, for the person gets many of this kind"
	case 131051, 131053:
		return "WhatsApp does not take this kind of media"
	case 132000, 132001, 132005, 132007, 132012, 132015, 132016:
		return "the template is not there in this language, is paused, or does not have exactly one variable in its body"
	}
	return ""
}

// outsideWindow is the code of the error that only a template can be sent now.
const outsideWindow = 131047

// unauthorized reports whether a person has to renew the token.
func unauthorized(err error) bool {
	e, ok := errors.AsType[*graphError](err)
	return ok && (e.Code == 190 || e.Code == 0 && e.status == http.StatusUnauthorized || e.Code == 10 || e.Code == 3 || e.Code == 200)
}

// final gives an error a status code when the same call can never succeed.
func final(err error) error {
	e, ok := errors.AsType[*graphError](err)
	if !ok || e.after > 0 || e.Code == 0 || e.status >= 500 || e.status == http.StatusTooManyRequests || unauthorized(err) {
		return err
	}
	if _, again := waits()[e.Code]; again || e.Code == 1 {
		return err
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}

// sentBy returns the outcome of a message for an error.
func sentBy(err error) (channel.Sent, error) {
	notSent := func(after time.Duration, err error) (channel.Sent, error) {
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: after}, err
	}
	if err == nil {
		return channel.Sent{Outcome: channel.OutcomeSent}, nil
	}
	if e, ok := errors.AsType[*graphError](err); ok {
		wait, known := waits()[e.Code]
		switch {
		case e.after > 0:
			return notSent(e.after, err)
		case known && e.Code != 0:
			return notSent(wait, err)
		case e.status == http.StatusTooManyRequests:
			return notSent(later, err)
		case e.Code <= 1 && e.status >= 500:
			return channel.Sent{Outcome: channel.OutcomeUnknown}, err
		}
		if w := words(e.Code); w != "" && (e.Code != 0 || e.Message != "") {
			err = fmt.Errorf("%s (%w)", w, err)
		}
		return notSent(permanent, err)
	}
	if webapi.Unsent(err) {
		return notSent(0, err)
	}
	return channel.Sent{Outcome: channel.OutcomeUnknown}, err
}
