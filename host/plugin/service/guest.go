package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/proto/hostv1"
)

// guest is one process of an instance.
type guest struct {
	*account
	instance string
	granted  []string
	hookBody int64  // longest body of a request to its webhooks
	number   uint64 // higher for later processes
	token    [sha256.Size]byte
	ended    context.Context // with the process
	end      context.CancelFunc
}

// Admit lets a process of an instance call the granted services, with webhooks of at most hookBody bytes, 0 for the default. It returns the
// endpoint and the token; revoke ends every call with it. If nothing is granted, both are empty.
func (s *Server) Admit(instance string, granted []string, hookBody int64) (endpoint, token string, revoke func()) {
	if !slices.Contains(granted, Webhooks) {
		// Hooks that an earlier process still serves stay: the new process may be an upgrade that fails.
		s.forget(func(r *route) bool { return r.instance == instance && r.hook == nil })
	}
	if len(granted) == 0 || s.listener == nil {
		return "", "", func() {}
	}
	token = rand.Text() + rand.Text()
	ended, end := context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	g := &guest{
		account: s.account(instance), instance: instance, granted: slices.Clone(granted), number: s.started,
		hookBody: min(cmp.Or(hookBody, maxHookBody), MaxHookBody),
		token:    sha256.Sum256([]byte(token)), ended: ended, end: end,
	}
	s.guests[g] = true
	return "unix:" + s.listener.Addr().String(), token, func() { s.revoke(g) }
}

// account returns the account of an instance. s.mu is held.
func (s *Server) account(instance string) *account {
	a := s.accounts[instance]
	if a == nil {
		a = newAccount(s.config.MediaPerHour)
		s.accounts[instance] = a
	}
	return a
}

func (s *Server) revoke(g *guest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.guests, g)
	g.end()
}

func (s *Server) revokeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.guests {
		g.end()
	}
	clear(s.guests)
}

// guest returns the guest with the token of a call. Every token is compared, each in constant time.
func (s *Server) guest(ctx context.Context) (*guest, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	given := md.Get("authorization")
	if len(given) != 1 {
		return nil, status.Error(codes.Unauthenticated, "send one header authorization: Bearer TOKEN")
	}
	token, _ := strings.CutPrefix(given[0], "Bearer ")
	sum := sha256.Sum256([]byte(token))
	s.mu.Lock()
	defer s.mu.Unlock()
	var found *guest
	for g := range s.guests {
		if subtle.ConstantTimeCompare(g.token[:], sum[:]) == 1 {
			found = g
		}
	}
	if found == nil {
		return nil, status.Error(codes.Unauthenticated, "the token is wrong, or its process has ended")
	}
	return found, nil
}

// needs is the permission for a method; an unknown method needs one that nobody has.
func needs(method string) string {
	switch method {
	case hostv1.Host_GetValue_FullMethodName, hostv1.Host_SetValue_FullMethodName, hostv1.Host_DeleteValue_FullMethodName,
		hostv1.Host_ListKeys_FullMethodName:
		return Values
	case hostv1.Host_PutMedia_FullMethodName, hostv1.Host_GetMedia_FullMethodName:
		return Media
	case hostv1.Host_Webhook_FullMethodName:
		return Webhooks
	case hostv1.Host_Count_FullMethodName:
		return Counters
	}
	return "an unknown service"
}

// admit returns the guest of a call, and an error if the guest may not make it.
func (s *Server) admit(ctx context.Context, method string) (*guest, error) {
	g, err := s.guest(ctx)
	if err != nil {
		return nil, err
	}
	if need := needs(method); !slices.Contains(g.granted, need) {
		return g, status.Errorf(codes.PermissionDenied, "plugin.toml does not ask for %q under permissions.host", need)
	}
	return g, spend(g.calls, 1, "too many calls")
}

// guestKey is the key of the guest in the context of a call.
type guestKey struct{}

func guestOf(ctx context.Context) *guest { return ctx.Value(guestKey{}).(*guest) }

// callTimeout bounds a unary call.
const callTimeout = 15 * time.Second

// guardCall implements grpc.UnaryServerInterceptor.
func (s *Server) guardCall(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (out any, err error) {
	g, err := s.admit(ctx, info.FullMethod)
	if g != nil {
		defer func() { s.config.Events.Publish(Called{g.instance, info.FullMethod, status.Code(err)}) }()
	}
	if err != nil {
		return nil, err
	}
	release, ok := take(g.callSlots)
	if !ok {
		return nil, tooMuch("too many calls at a time", 100*time.Millisecond)
	}
	defer release()
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, guestKey{}, g), callTimeout)
	defer cancel()
	defer context.AfterFunc(g.ended, cancel)()
	defer s.recovered(info.FullMethod, &err)
	return next(ctx, req)
}

// guardStream implements grpc.StreamServerInterceptor.
func (s *Server) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	g, err := s.admit(stream.Context(), info.FullMethod)
	if g != nil {
		defer func() { s.config.Events.Publish(Called{g.instance, info.FullMethod, status.Code(err)}) }()
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithValue(stream.Context(), guestKey{}, g))
	defer cancel()
	defer context.AfterFunc(g.ended, cancel)()
	w := &watched{ServerStream: stream, ctx: ctx, cancel: cancel}
	if needs(info.FullMethod) == Media {
		release, ok := take(g.mediaSlots)
		if !ok {
			return tooMuch("too many transfers of media at a time", time.Second)
		}
		defer release()
		w.watch(mediaIdle, mediaTimeout)
		defer w.unwatch()
	}
	return s.attended(w, info.FullMethod, func() error { return next(srv, w) })
}

// errOver ends the streams of a process that has ended, or that took too long.
var errOver = status.Error(codes.Aborted, "the process has ended, or it took too long")

// attended runs a stream's handler until its context ends, even if the handler waits for the plugin: the end of the stream, which the
// return of this method causes, then ends the handler.
func (s *Server) attended(w *watched, method string, handle func() error) error {
	done := make(chan error, 1)
	s.work.Go(func() {
		var err error
		defer func() { done <- err }()
		defer s.recovered(method, &err)
		err = handle()
	})
	select {
	case err := <-done:
		return err
	case <-w.ctx.Done():
		return errOver
	}
}

// recovered turns a panic into an error of the call: a plugin's input must not crash the host.
func (s *Server) recovered(method string, err *error) {
	if p := recover(); p != nil {
		s.log.Error("a service panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "internal error of the host")
	}
}

// watched is a stream with its own context and, for media, with timeouts.
type watched struct {
	grpc.ServerStream
	ctx    context.Context
	cancel context.CancelFunc
	idle   time.Duration // 0: for ever
	timer  *time.Timer   // of the next frame
	whole  *time.Timer
}

func (w *watched) watch(idle, whole time.Duration) {
	w.idle, w.timer, w.whole = idle, time.AfterFunc(idle, w.cancel), time.AfterFunc(whole, w.cancel)
}

func (w *watched) unwatch() {
	w.timer.Stop()
	w.whole.Stop()
}

// Context implements grpc.ServerStream.
func (w *watched) Context() context.Context { return w.ctx }

// RecvMsg implements grpc.ServerStream.
func (w *watched) RecvMsg(m any) error {
	err := w.ServerStream.RecvMsg(m)
	w.progress()
	return err
}

// SendMsg implements grpc.ServerStream.
func (w *watched) SendMsg(m any) error {
	err := w.ServerStream.SendMsg(m)
	w.progress()
	return err
}

func (w *watched) progress() {
	if w.idle > 0 && w.ctx.Err() == nil {
		w.timer.Reset(w.idle)
	}
}

// trouble logs an error of the host, and returns the error for the plugin without its details.
func (s *Server) trouble(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errOver
	}
	s.log.Error("a service failed", "instance", guestOf(ctx).instance, "doing", doing, "error", err)
	return status.Error(codes.Unavailable, "the host cannot access its store")
}
