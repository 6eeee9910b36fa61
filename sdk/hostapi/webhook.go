package hostapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

type webhookStream = grpc.BidiStreamingClient[hostv1.WebhookRequest, hostv1.WebhookResponse]

// maxCalls bounds the webhook calls that one plugin serves at the same time; the host bounds them, too.
const maxCalls = 64

// maxBody is the largest body of a call that the manifest can request, in bytes.
const maxBody = 4 << 20

// callTimeout is the time after which the host gives up on a call.
const callTimeout = 15 * time.Second

// Webhook serves the requests for path ("" or "a/b") below the instance's own path on the host's listener, until ctx ends or the host is
// gone. It requires the permission "webhook".
//
// ready is called with the full address for the platform, once requests for it arrive here; it must not block. A request has at most 256
// KiB of body, or what permissions.webhook_body of plugin.toml requests, and must be answered within 15 s, when its context ends. The
// response consists of status, content type and a body of at most 256 KiB. If serve panics, the status is 500. Anybody can call the
// address: serve has to check that the caller is the platform.
func (h *Host) Webhook(ctx context.Context, path string, ready func(url string), serve http.Handler) error {
	c, err := h.service()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Webhook(ctx)
	if err != nil {
		return failed("register webhook", err)
	}
	err = stream.Send(&hostv1.WebhookRequest{Frame: &hostv1.WebhookRequest_Path{Path: path}})
	if err != nil && !errors.Is(err, io.EOF) { // the host has ended the stream: Recv returns the reason
		return failed("register webhook", err)
	}
	w := webhook{stream: stream, serve: serve, slots: make(chan struct{}, maxCalls)}
	defer w.calls.Wait()
	defer cancel()
	for {
		frame, err := stream.Recv()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return failed("serve webhook", err)
		case frame.GetUrl() != "":
			ready(frame.GetUrl())
		case frame.GetCall() != nil:
			w.take(ctx, frame.GetCall())
		}
	}
}

// webhook is one registered path.
type webhook struct {
	stream webhookStream
	serve  http.Handler
	slots  chan struct{}
	calls  sync.WaitGroup

	mu sync.Mutex // of stream.Send
}

func (w *webhook) take(ctx context.Context, call *hostv1.WebhookCall) {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	w.calls.Go(func() {
		defer func() { <-w.slots }()
		answer := w.answer(ctx, call)
		w.mu.Lock()
		defer w.mu.Unlock()
		_ = w.stream.Send(&hostv1.WebhookRequest{Frame: &hostv1.WebhookRequest_Answer{Answer: answer}}) // Recv fails if the stream is broken
	})
}

// answer runs the handler on one call.
func (w *webhook) answer(ctx context.Context, call *hostv1.WebhookCall) (out *hostv1.WebhookAnswer) {
	defer func() {
		if p := recover(); p != nil {
			out = &hostv1.WebhookAnswer{Id: call.GetId(), Status: http.StatusInternalServerError}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := request(ctx, call)
	if err != nil {
		return &hostv1.WebhookAnswer{Id: call.GetId(), Status: http.StatusBadRequest}
	}
	record := newRecord()
	w.serve.ServeHTTP(record, r)
	status, contentType, body := record.answer()
	out = &hostv1.WebhookAnswer{Id: call.GetId(), Status: uint32(status), Body: body}
	if contentType != "" {
		out.Headers = map[string]string{"content-type": strings.ToValidUTF8(contentType, "")}
	}
	return out
}

func request(ctx context.Context, call *hostv1.WebhookCall) (*http.Request, error) {
	url := "/"
	if q := call.GetQuery(); q != "" {
		url += "?" + q
	}
	r, err := http.NewRequestWithContext(ctx, call.GetMethod(), url, bytes.NewReader(call.GetBody()))
	if err != nil {
		return nil, fmt.Errorf("read webhook call: %w", err)
	}
	for name, value := range call.GetHeaders() {
		r.Header.Set(name, value)
	}
	return r, nil
}
