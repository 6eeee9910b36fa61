package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/slack-go/slack"

	"github.com/flynnhost/flynn/sdk/webapi"
)

const (
	callTimeout = 15 * time.Second
	maxAnswer   = 16 << 20 // bytes of one answer of the Web API
)

// web is the way to Slack's Web API.
type web struct {
	client *slack.Client
	http   *http.Client // for WebSockets, too
	api    string
	token  string
}

func newWeb(s settings) *web {
	direct := webapi.NewClient()
	return &web{
		client: slack.New(s.bot, slack.OptionAppLevelToken(s.app), slack.OptionAPIURL(s.APIURL),
			slack.OptionHTTPClient(bounded{direct}), slack.OptionLog(log.New(io.Discard, "", 0))),
		http: direct, api: s.APIURL, token: s.bot,
	}
}

// bounded cuts off answers that no memory should hold.
type bounded struct{ *http.Client }

// Do does one call.
func (b bounded) Do(r *http.Request) (*http.Response, error) {
	resp, err := webapi.Do(b.Client, r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	}
	return resp, err
}

// clean removes the address from an error: that of a connection contains a ticket.
func clean(doing string, err error) error {
	err = webapi.WithoutAddress(err)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: slack does not answer: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
