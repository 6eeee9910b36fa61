package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-telegram/bot"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/cut"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// api is the Bot API of one bot: the library's methods, on a wire whose errors report what may have been carried out and never show the token,
// and getUpdates, which the library keeps for its own loop.
type api struct {
	*bot.Bot
	wire  *wire
	base  string // https://api.telegram.org
	token string
}

func newAPI(s settings) (*api, error) {
	w := &wire{client: newHTTPClient()}
	b, err := bot.New(s.token, bot.WithServerURL(s.APIURL), bot.WithHTTPClient(time.Minute, w), bot.WithSkipGetMe(),
		bot.WithErrorsHandler(func(error) {})) // errors of a pipe whose other end has closed
	if err != nil {
		return nil, err
	}
	return &api{Bot: b, wire: w, base: s.APIURL, token: s.token}, nil
}

// Deadlines of calls.
const (
	pollTime   = 50 * time.Second // the longest that Telegram waits
	callTime   = 30 * time.Second
	uploadTime = 3 * time.Minute
)

// newHTTPClient speaks HTTP/1.1 only: on one HTTP/2 connection a network that swallows packets would hold up polls and sends alike.
func newHTTPClient() *http.Client {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 15 * time.Second,
			IdleConnTimeout:     45 * time.Second,
			MaxIdleConnsPerHost: 8,
			Protocols:           protocols,
		},
		CheckRedirect: webapi.NewClient().CheckRedirect,
	}
}

// wire makes HTTP calls.
type wire struct{ client *http.Client }

const (
	maxAnswer = 16 << 20 // bytes of an answer: a hundred updates and more
	maxReplay = 64 << 10 // bytes of a call that are held to be written again on another connection
)

// Do implements the library's HttpClient.
func (w *wire) Do(r *http.Request) (*http.Response, error) {
	if err := replayable(r); err != nil {
		return nil, &webapi.Error{Err: err}
	}
	resp, err := webapi.Do(w.client, r)
	if err != nil {
		return nil, err
	}
	if c := resp.StatusCode; c >= 500 || c == http.StatusRequestEntityTooLarge || c >= 300 && c < 400 {
		resp.Body.Close()
		return nil, &webapi.StatusError{Code: c}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}

// replayable holds a small body in memory. Then the transport can take another connection when the server has closed an idle one in
// the very moment of its use; it does so only when nothing was written.
func replayable(r *http.Request) error {
	if r.Body == nil || r.GetBody != nil {
		return nil
	}
	head, err := io.ReadAll(io.LimitReader(r.Body, maxReplay+1))
	if err != nil {
		return err
	}
	if len(head) > maxReplay {
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(head), r.Body), r.Body}
		return nil
	}
	_ = r.Body.Close()
	if len(head) == 0 {
		r.Body, r.ContentLength = http.NoBody, 0
		return nil
	}
	r.ContentLength = int64(len(head))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(head)), nil }
	r.Body, _ = r.GetBody()
	return nil
}

// wanted returns the kinds of update that become events.
func wanted() []string {
	return []string{"message", "edited_message", "channel_post", "edited_channel_post", "callback_query", "message_reaction"}
}

// updates asks for what comes after offset, each update by itself: one that cannot be read must not hold up the others. An offset
// above zero confirms everything below it.
func (a *api) updates(ctx context.Context, offset int64) ([]json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTime+callTime)
	defer cancel()
	ask, err := json.Marshal(struct {
		Offset  int64    `json:"offset,omitempty"`
		Timeout int      `json:"timeout"`
		Allowed []string `json:"allowed_updates"`
	}{offset, int(pollTime.Seconds()), wanted()})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+"/bot"+a.token+"/getUpdates", bytes.NewReader(ask))
	if err != nil {
		return nil, errors.New("make the address of getUpdates")
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := a.wire.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return readUpdates(resp.Body)
}

// readUpdates reads the answer to getUpdates. Its errors are those that the library has for other methods.
func readUpdates(body io.Reader) ([]json.RawMessage, error) {
	var answer struct {
		OK          bool              `json:"ok"`
		Result      []json.RawMessage `json:"result"`
		Code        int               `json:"error_code"`
		Description string            `json:"description"`
		Parameters  struct {
			RetryAfter int `json:"retry_after"`
		} `json:"parameters"`
	}
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return nil, errors.New("read updates: the answer is no JSON of the Bot API")
	}
	if answer.OK {
		return answer.Result, nil
	}
	kinds := map[int]error{400: bot.ErrorBadRequest, 401: bot.ErrorUnauthorized, 403: bot.ErrorForbidden, 404: bot.ErrorNotFound, 409: bot.ErrorConflict}
	if answer.Code == http.StatusTooManyRequests {
		return nil, &bot.TooManyRequestsError{Message: answer.Description, RetryAfter: answer.Parameters.RetryAfter}
	}
	if kind := kinds[answer.Code]; kind != nil {
		return nil, fmt.Errorf("%w, %s", kind, answer.Description)
	}
	return nil, fmt.Errorf("read updates: %d %s", answer.Code, answer.Description)
}

const maxWords = 300 // bytes of an error

// words returns an error without the token and of bounded length, because a server may have returned parts of it.
func (a *api) words(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(err.Error(), a.token, "***")
	return errors.New(strings.ToValidUTF8(cut.Head(text, maxWords), ""))
}

// final converts an error for the host, with a status code if trying again is useless.
func (a *api) final(err error) error {
	if refused(err) {
		return status.Error(codes.FailedPrecondition, a.words(err).Error())
	}
	return a.words(err)
}

// retryAfter returns how long the server asks to wait, or zero.
func retryAfter(err error) time.Duration {
	if slow, ok := errors.AsType[*bot.TooManyRequestsError](err); ok {
		return time.Duration(max(slow.RetryAfter, 1)) * time.Second
	}
	return 0
}

// refused reports whether the server refused a call finally: nothing was done, and a repeated call would fail again.
func refused(err error) bool {
	answer, ok := errors.AsType[*webapi.StatusError](err)
	return errors.Is(err, bot.ErrorBadRequest) || errors.Is(err, bot.ErrorForbidden) || errors.Is(err, bot.ErrorNotFound) ||
		ok && answer.Code == http.StatusRequestEntityTooLarge
}

// says reports whether the server's refusal contains one of these texts.
func says(err error, words ...string) bool {
	if !refused(err) {
		return false
	}
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, strings.ToLower(w)) })
}
