package channel

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/internal/process"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// outbound serves flynn.channel.v1.Channel.
type outbound struct {
	channelv1.UnimplementedChannelServer
	channel Channel
	server  *process.Server
	backlog *backlog
	lease   *lease
	sent    *recent
	edits   *revisions
}

// ability returns the optional interface T of the channel, or a status error if the channel does not implement it.
func ability[T any](o *outbound, method string) (T, error) {
	p, ok := o.channel.(T)
	if !ok {
		return p, status.Errorf(codes.Unimplemented, "the channel has no %s", method)
	}
	return p, nil
}

// callTime bounds calls other than Send, Fetch and Upload.
const callTime = time.Minute

// optional calls f with the optional interface T of the channel.
func optional[T any](ctx context.Context, o *outbound, method string, f func(ctx context.Context, p T) error) error {
	p, err := ability[T](o, method)
	if err != nil {
		return err
	}
	ctx, cancel, err := o.bounded(ctx, callTime)
	if err != nil {
		return err
	}
	defer cancel()
	return failed(f(ctx, p))
}

// bounded derives the context of a call other than Send. Without a lease there is none, and the host may try again.
func (o *outbound) bounded(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc, error) {
	ctx, release, err := o.lease.leased(ctx)
	if err != nil {
		return nil, nil, status.Error(codes.Unavailable, err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	return ctx, func() { cancel(); release() }, nil
}

// failed adds a status code to the author's error, unless it has one.
func failed(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if c := status.FromContextError(err).Code(); c != codes.Unknown {
		return status.Error(c, utf8(err.Error()))
	}
	return status.Error(codes.Unavailable, utf8(err.Error()))
}

// Send delivers one message, once for each key.
func (o *outbound) Send(ctx context.Context, r *channelv1.SendRequest) (*channelv1.SendResponse, error) {
	ctx, cancel := withPatience(ctx, o.server.Until)
	defer cancel()
	return sentToWire(o.sent.once(ctx, r.GetIdempotencyKey(), func(resume string) (Sent, error) {
		ctx, cancel, err := o.lease.leased(ctx)
		if err != nil {
			return Sent{Outcome: OutcomeNotSent}, err
		}
		defer cancel()
		s := sendFromWire(r)
		if resume != "" { // a host that does not know the field repeats everything
			s.Resume = resume
		}
		return o.channel.Send(ctx, s)
	})), nil
}

// Edit changes a sent message, unless a later revision was applied before.
func (o *outbound) Edit(ctx context.Context, r *channelv1.EditRequest) (*channelv1.EditResponse, error) {
	out := &channelv1.EditResponse{}
	return out, optional(ctx, o, "Edit", func(ctx context.Context, p Editor) error {
		if !o.edits.newer(r.GetConversation().GetId(), r.GetMessageId(), r.GetRevision(), r.GetFinal()) {
			return nil
		}
		edited, err := p.Edit(ctx, Edit{
			Conversation: conversationFromWire(r.GetConversation()),
			MessageID:    r.GetMessageId(),
			Revision:     r.GetRevision(),
			Text:         r.GetText(),
			Markdown:     r.GetFormat() == channelv1.TextFormat_TEXT_FORMAT_MARKDOWN,
			Final:        r.GetFinal(),
			Buttons:      buttonsFromWire(r.GetButtons()),
		})
		if err != nil || edited.RetryAfter > 0 {
			o.edits.refused(r.GetConversation().GetId(), r.GetMessageId(), r.GetRevision())
		}
		out.Applied, out.RetryAfter = edited.RetryAfter <= 0, durationToWire(edited.RetryAfter)
		return err
	})
}

// Delete removes a sent message.
func (o *outbound) Delete(ctx context.Context, r *channelv1.DeleteRequest) (*channelv1.DeleteResponse, error) {
	return &channelv1.DeleteResponse{}, optional(ctx, o, "Delete", func(ctx context.Context, p Deleter) error {
		return p.Delete(ctx, conversationFromWire(r.GetConversation()), r.GetMessageId())
	})
}

// React adds or removes a reaction.
func (o *outbound) React(ctx context.Context, r *channelv1.ReactRequest) (*channelv1.ReactResponse, error) {
	return &channelv1.ReactResponse{}, optional(ctx, o, "React", func(ctx context.Context, p Reacter) error {
		return p.React(ctx, Reaction{
			Conversation: conversationFromWire(r.GetConversation()), MessageID: r.GetMessageId(), Reaction: r.GetReaction(), Remove: r.GetRemove(),
		})
	})
}

// SetTyping shows or hides "typing".
func (o *outbound) SetTyping(ctx context.Context, r *channelv1.SetTypingRequest) (*channelv1.SetTypingResponse, error) {
	return &channelv1.SetTypingResponse{}, optional(ctx, o, "SetTyping", func(ctx context.Context, p Typer) error {
		return p.Typing(ctx, Typing{Conversation: conversationFromWire(r.GetConversation()), On: r.GetTyping(), TTL: r.GetTtl().AsDuration()})
	})
}

// maxTargets bounds what Resolve answers.
const maxTargets = 20

// Resolve finds conversations.
func (o *outbound) Resolve(ctx context.Context, r *channelv1.ResolveRequest) (*channelv1.ResolveResponse, error) {
	out := &channelv1.ResolveResponse{}
	return out, optional(ctx, o, "Resolve", func(ctx context.Context, p Resolver) error {
		targets, err := p.Resolve(ctx, r.GetQuery())
		for _, t := range targets[:min(len(targets), maxTargets)] {
			out.Targets = append(out.Targets, &channelv1.Target{Conversation: conversationToWire(t.Conversation), Title: utf8(t.Title)})
		}
		return err
	})
}

// Reconcile returns the outcome of a send.
func (o *outbound) Reconcile(ctx context.Context, r *channelv1.ReconcileRequest) (*channelv1.ReconcileResponse, error) {
	out := &channelv1.ReconcileResponse{}
	return out, optional(ctx, o, "Reconcile", func(ctx context.Context, p Reconciler) error {
		sent, err := p.Reconcile(ctx, Reconcile{
			Key: r.GetIdempotencyKey(), Conversation: conversationFromWire(r.GetConversation()), Text: r.GetText(),
		})
		out.Outcome, out.MessageIds = outcomeToWire(sent.Outcome, err), validAll(sent.MessageIDs)
		return err
	})
}

// maxEdited bounds the messages whose revision is remembered, and maxEditAge for how long.
const (
	maxEdited  = 1024
	maxEditAge = time.Hour
)

// revisions remembers the latest revision of messages that are being edited.
type revisions struct {
	mu     sync.Mutex
	latest map[[2]string]revision
}

type revision struct {
	number uint64
	final  bool
	at     time.Time
}

// newer records a revision and reports whether it is above every earlier one of the message.
func (v *revisions) newer(conversation, message string, number uint64, final bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.latest == nil {
		v.latest = map[[2]string]revision{}
	}
	key, now := [2]string{conversation, message}, time.Now()
	if old, ok := v.latest[key]; ok && (number <= old.number || old.final) {
		return false
	}
	if len(v.latest) >= maxEdited {
		v.forgetOld(now)
	}
	v.latest[key] = revision{number, final, now}
	return true
}

// refused records that a final edit was not applied, so that the host may try again with a higher number.
func (v *revisions) refused(conversation, message string, number uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := [2]string{conversation, message}
	if r, ok := v.latest[key]; ok && r.number == number {
		r.final = false
		v.latest[key] = r
	}
}

// forgetOld removes messages that are too old to be edited again and, if that is not enough, all of them.
func (v *revisions) forgetOld(now time.Time) {
	for key, r := range v.latest {
		if now.Sub(r.at) > maxEditAge {
			delete(v.latest, key)
		}
	}
	if len(v.latest) >= maxEdited {
		clear(v.latest)
	}
}
