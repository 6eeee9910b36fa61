package service

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

// Deadlines of webhooks.
const (
	pathTimeout   = 10 * time.Second // for the first frame
	answerTimeout = 15 * time.Second // from the request to the answer
)

type webhookStream = grpc.BidiStreamingServer[hostv1.WebhookRequest, hostv1.WebhookResponse]

// hook is a plugin's stream that serves one path.
type hook struct {
	guest *guest
	path  string
	calls chan *hostv1.WebhookCall
	ended context.Context
	end   context.CancelFunc

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan *hostv1.WebhookAnswer
}

// Webhook implements hostv1.HostServer.
func (s *Server) Webhook(stream webhookStream) error {
	if s.config.PublicURL == "" {
		return status.Error(codes.FailedPrecondition, "the host takes no webhooks: set [gateway] hooks_listen")
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	h := &hook{
		guest: guestOf(ctx), calls: make(chan *hostv1.WebhookCall), ended: ctx, end: cancel,
		waiting: map[uint64]chan *hostv1.WebhookAnswer{},
	}
	read := make(chan error, 1)
	path := make(chan string, 1)
	s.work.Go(func() { read <- h.read(stream, path) })
	select {
	case h.path = <-path:
	case err := <-read:
		return err
	case <-time.After(pathTimeout):
		return status.Error(codes.DeadlineExceeded, "no path came")
	case <-ctx.Done():
		return errOver
	}
	if !validHookPath(h.path) {
		return status.Errorf(codes.InvalidArgument, "a path has at most %d bytes: segments of letters, digits, -, ., _ and ~ between slashes", maxHookPath)
	}
	r, err := s.claim(h)
	if err != nil {
		return err
	}
	defer s.leave(r, h)
	if err := s.keep(ctx, r); err != nil {
		return s.trouble(ctx, "keep the path of a webhook", err)
	}
	s.log.Info("webhook is served", "instance", h.guest.instance, "path", HookPath(r.instance, r.path))
	return s.serve(h, stream, read)
}

// serve passes calls on until the stream has ended. If the plugin does not read a call, its stream is ended.
func (s *Server) serve(h *hook, stream webhookStream, read <-chan error) error {
	frames := make(chan *hostv1.WebhookResponse)
	failed := make(chan error, 1)
	s.work.Go(func() { // ends with the stream
		for {
			select {
			case frame := <-frames:
				if err := stream.Send(frame); err != nil {
					failed <- err
					return
				}
			case <-h.ended.Done():
				return
			}
		}
	})
	pass := func(frame *hostv1.WebhookResponse) error {
		patience := time.NewTimer(answerTimeout)
		defer patience.Stop()
		select {
		case frames <- frame:
			return nil
		case err := <-failed:
			return err
		case err := <-read:
			return err
		case <-patience.C:
			return status.Error(codes.DeadlineExceeded, "the plugin does not read")
		case <-h.ended.Done():
			return errOver
		}
	}
	url := s.config.PublicURL + HookPath(h.guest.instance, h.path)
	if err := pass(&hostv1.WebhookResponse{Frame: &hostv1.WebhookResponse_Url{Url: url}}); err != nil {
		return err
	}
	s.config.OnServe(h.guest.instance, url)
	for {
		select {
		case call := <-h.calls:
			if err := pass(&hostv1.WebhookResponse{Frame: &hostv1.WebhookResponse_Call{Call: call}}); err != nil {
				return err
			}
		case err := <-failed:
			return err
		case err := <-read:
			return err
		case <-h.ended.Done():
			return errOver
		}
	}
}

// read reads frames of the plugin until the stream ends. Unknown frames of a later protocol are ignored.
func (h *hook) read(stream webhookStream, path chan<- string) error {
	first, err := stream.Recv()
	if err != nil {
		return ended(err)
	}
	frame, ok := first.GetFrame().(*hostv1.WebhookRequest_Path)
	if !ok {
		return status.Error(codes.InvalidArgument, "the first frame must be the path")
	}
	path <- frame.Path
	for {
		frame, err := stream.Recv()
		if err != nil {
			return ended(err)
		}
		if a := frame.GetAnswer(); a != nil {
			h.answered(a)
		}
	}
}

// ended returns nil for the regular end of a stream.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// answered passes an answer to the request that waits for it. Other answers are late or invalid, and are dropped.
func (h *hook) answered(a *hostv1.WebhookAnswer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.waiting[a.GetId()]; c != nil {
		delete(h.waiting, a.GetId())
		c <- a
	}
}

// ask passes a call to the plugin and waits for its answer; nil if there is none.
func (h *hook) ask(ctx context.Context, call *hostv1.WebhookCall) *hostv1.WebhookAnswer {
	answer := make(chan *hostv1.WebhookAnswer, 1)
	h.mu.Lock()
	h.last++
	call.Id = h.last
	h.waiting[call.Id] = answer
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.waiting, call.Id)
	}()
	select {
	case h.calls <- call:
	case <-ctx.Done():
		return nil
	case <-h.ended.Done():
		return nil
	}
	select {
	case a := <-answer:
		return a
	case <-ctx.Done():
	case <-h.ended.Done():
	}
	return nil
}
