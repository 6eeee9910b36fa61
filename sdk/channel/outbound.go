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
	sent    *recent
	edits   *revisions
}

// ability returns the optional interface T of the channel, or the status that says that it has none.
func ability[T any](o *outbound, method string) (T, error) {
	p, ok := o.channel.(T)
	if !ok {
		return p, status.Errorf(codes.Unimplemented, "the channel has no %s", method)
	}
	return p, nil
}

// failed gives the author's error a code, unless it has one.
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
		s := sendFromWire(r)
		if resume != "" { // a host that does not know the field repeats all
			s.Resume = resume
		}
		return o.channel.Send(ctx, s)
	})), nil
}

// Edit changes a sent message, unless a later revision was there before.
func (o *outbound) Edit(ctx context.Context, r *channelv1.EditRequest) (*channelv1.EditResponse, error) {
	p, err := ability[Editor](o, "Edit")
	if err != nil {
		return nil, err
	}
	if !o.edits.newer(r.GetConversation().GetId(), r.GetMessageId(), r.GetRevision(), r.GetFinal()) {
		return &channelv1.EditResponse{}, nil
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
	if err != nil {
		return nil, failed(err)
	}
	return &channelv1.EditResponse{Applied: edited.RetryAfter <= 0, RetryAfter: durationToWire(edited.RetryAfter)}, nil
}

// Delete removes a sent message.
func (o *outbound) Delete(ctx context.Context, r *channelv1.DeleteRequest) (*channelv1.DeleteResponse, error) {
	p, err := ability[Deleter](o, "Delete")
	if err != nil {
		return nil, err
	}
	err = p.Delete(ctx, conversationFromWire(r.GetConversation()), r.GetMessageId())
	return &channelv1.DeleteResponse{}, failed(err)
}

// React adds or removes a reaction.
func (o *outbound) React(ctx context.Context, r *channelv1.ReactRequest) (*channelv1.ReactResponse, error) {
	p, err := ability[Reacter](o, "React")
	if err != nil {
		return nil, err
	}
	err = p.React(ctx, Reaction{
		Conversation: conversationFromWire(r.GetConversation()),
		MessageID:    r.GetMessageId(),
		Reaction:     r.GetReaction(),
		Remove:       r.GetRemove(),
	})
	return &channelv1.ReactResponse{}, failed(err)
}

// SetTyping shows or hides "typing".
func (o *outbound) SetTyping(ctx context.Context, r *channelv1.SetTypingRequest) (*channelv1.SetTypingResponse, error) {
	p, err := ability[Typer](o, "SetTyping")
	if err != nil {
		return nil, err
	}
	err = p.Typing(ctx, Typing{
		Conversation: conversationFromWire(r.GetConversation()),
		On:           r.GetTyping(),
		TTL:          r.GetTtl().AsDuration(),
	})
	return &channelv1.SetTypingResponse{}, failed(err)
}

// maxTargets bounds what Resolve answers.
const maxTargets = 20

// Resolve finds conversations.
func (o *outbound) Resolve(ctx context.Context, r *channelv1.ResolveRequest) (*channelv1.ResolveResponse, error) {
	p, err := ability[Resolver](o, "Resolve")
	if err != nil {
		return nil, err
	}
	targets, err := p.Resolve(ctx, r.GetQuery())
	out := &channelv1.ResolveResponse{}
	for _, t := range targets[:min(len(targets), maxTargets)] {
		out.Targets = append(out.Targets, &channelv1.Target{
			Conversation: conversationToWire(t.Conversation), Title: utf8(t.Title),
		})
	}
	return out, failed(err)
}

// Reconcile tells what became of a send.
func (o *outbound) Reconcile(ctx context.Context, r *channelv1.ReconcileRequest) (*channelv1.ReconcileResponse, error) {
	p, err := ability[Reconciler](o, "Reconcile")
	if err != nil {
		return nil, err
	}
	sent, err := p.Reconcile(ctx, Reconcile{
		Key: r.GetIdempotencyKey(), Conversation: conversationFromWire(r.GetConversation()), Text: r.GetText(),
	})
	return &channelv1.ReconcileResponse{
		Outcome: outcomeToWire(sent.Outcome, err), MessageIds: validAll(sent.MessageIDs),
	}, failed(err)
}

// maxEdited bounds the messages whose revision is remembered, maxEditAge how long.
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

// newer reports whether number is above every earlier one of the message, and remembers it.
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

// refused takes back that an edit was final: it was not applied, and the host may try again with a higher number.
func (v *revisions) refused(conversation, message string, number uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := [2]string{conversation, message}
	if r, ok := v.latest[key]; ok && r.number == number {
		r.final = false
		v.latest[key] = r
	}
}

// forgetOld drops what is too old to be edited again and, when that is not enough, everything.
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
