package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/sdk/proto/bounds"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
)

// Client is the client of one ready channel, for the duration of one Handler.Serve. Its methods may be called from many goroutines, Receive
// from one. A call that may have an effect continues when its ctx is cancelled, see kind.Conn.Effect.
type Client struct {
	*kind.Conn
	capabilities message.Capabilities
	rpc          channelv1.ChannelClient
}

// NewClient returns the client of a ready process.
func NewClient(c *kind.Conn) *Client {
	options, _ := c.Options.(*Options)
	if options == nil {
		options = &Options{}
	}
	return &Client{Conn: c, capabilities: options.Capabilities(c.Settings), rpc: channelv1.NewChannelClient(c)}
}

// Capabilities returns what the channel can do.
func (c *Client) Capabilities() message.Capabilities { return c.capabilities }

// Send delivers one reply. The outcome is always set; the error says why it is neither Sent nor Duplicate, or only partly sent.
func (c *Client) Send(ctx context.Context, r message.Reply) (message.Delivery, error) {
	return c.send(ctx, r, false)
}

// SendDraft is Send for a first text that edits will complete.
func (c *Client) SendDraft(ctx context.Context, r message.Reply) (message.Delivery, error) {
	return c.send(ctx, r, true)
}

func (c *Client) send(ctx context.Context, r message.Reply, draft bool) (message.Delivery, error) {
	if c.Gone.Err() != nil {
		return message.Delivery{Outcome: message.NotSent}, fmt.Errorf("send to %s: the plugin is not running", c.Instance)
	}
	if c.lost() {
		return message.Delivery{Outcome: message.NotSent}, fmt.Errorf("send to %s: %w", c.Instance, errLost)
	}
	ctx, cancel := c.Effect(ctx)
	defer cancel()
	var reached peer.Peer
	out, err := c.rpc.Send(ctx, &channelv1.SendRequest{
		IdempotencyKey:    r.Key,
		Conversation:      conversationToWire(r.Conversation),
		ReplyTo:           r.ReplyTo,
		Text:              valid(r.Text),
		Format:            c.format(),
		Attachments:       attachmentsToWire(r.Attachments),
		Draft:             draft,
		PossibleDuplicate: r.PossibleDuplicate,
		Buttons:           c.buttons(r.Buttons),
		Resume:            r.Resume,
	}, grpc.Peer(&reached))
	if err != nil && reached.Addr == nil { // there was no connection: the process is ending or has ended
		return message.Delivery{Outcome: message.NotSent}, fmt.Errorf("send to %s: %w", c.Instance, err)
	}
	if err != nil {
		return message.Delivery{Outcome: outcomeOfError(err)}, fmt.Errorf("send to %s: %w", c.Instance, err)
	}
	return c.result(out)
}

var errLost = errors.New("another host may have the channel")

// lost reports whether another host may have the channel.
func (c *Client) lost() bool { return c.Lease != nil && c.Lease.Sending() <= 0 }

// result checks and bounds the answer of the plugin.
func (c *Client) result(out *channelv1.SendResponse) (message.Delivery, error) {
	r := message.Delivery{
		Outcome:     outcomeFromWire(out.GetOutcome()),
		PlatformIDs: idsFromWire(out.GetMessageIds()),
		RetryAfter:  retryAfter(out.GetRetryAfter()),
		Resume:      resume(out.GetResume()),
	}
	if out.GetRefused() && r.Outcome == message.NotSent {
		r.Outcome = message.Refused
	}
	if r.Arrived() {
		return r, nil
	}
	if r.Outcome == message.NotSent && r.Resume != "" && r.RetryAfter == 0 && out.GetDetail() == "" {
		return r, nil // the rest is sent at once
	}
	why := cmp.Or(kind.Text(out.GetDetail(), kind.MaxDetail), "no reason given")
	return r, fmt.Errorf("send to %s: %s: %s", c.Instance, r.Outcome, why)
}

func (c *Client) format() channelv1.TextFormat {
	if c.capabilities.Markdown {
		return channelv1.TextFormat_TEXT_FORMAT_MARKDOWN
	}
	return channelv1.TextFormat_TEXT_FORMAT_PLAIN
}

// buttons returns nil if the channel shows no buttons.
func (c *Client) buttons(list []message.Button) []*channelv1.Button {
	if !c.capabilities.Buttons {
		return nil
	}
	styles := map[message.ButtonStyle]channelv1.ButtonStyle{
		message.ButtonPrimary: channelv1.ButtonStyle_BUTTON_STYLE_PRIMARY,
		message.ButtonDanger:  channelv1.ButtonStyle_BUTTON_STYLE_DANGER,
	}
	var out []*channelv1.Button
	for _, b := range list[:min(len(list), message.MaxButtons)] {
		out = append(out, &channelv1.Button{Text: valid(b.Text), Value: valid(b.Value), Style: styles[b.Style]})
	}
	return out
}

// Edit replaces the text of a sent message. The error only explains the result.
func (c *Client) Edit(ctx context.Context, r message.Revision) (message.Revised, error) {
	if c.lost() {
		return message.Revised{}, fmt.Errorf("edit on %s: %w", c.Instance, errLost)
	}
	ctx, cancel := c.Effect(ctx)
	defer cancel()
	out, err := c.rpc.Edit(ctx, &channelv1.EditRequest{
		Conversation: conversationToWire(r.Conversation),
		MessageId:    r.MessageID,
		Revision:     r.Number,
		Text:         valid(r.Text),
		Format:       c.format(),
		Final:        r.Final,
		Buttons:      c.buttons(r.Buttons),
	})
	if err != nil {
		return message.Revised{Never: neverWorks(err)}, fmt.Errorf("edit on %s: %w", c.Instance, err)
	}
	wait := retryAfter(out.GetRetryAfter())
	return message.Revised{Applied: out.GetApplied(), RetryAfter: wait, Stale: !out.GetApplied() && wait == 0}, nil
}

// Delete removes a sent message.
func (c *Client) Delete(ctx context.Context, where message.Conversation, messageID string) error {
	ctx, cancel := c.Effect(ctx)
	defer cancel()
	_, err := c.rpc.Delete(ctx, &channelv1.DeleteRequest{Conversation: conversationToWire(where), MessageId: messageID})
	if err != nil {
		return fmt.Errorf("delete a message on %s: %w", c.Instance, err)
	}
	return nil
}

// Typing shows or hides that Flynn is typing; it shows for ttl and has to be repeated to show longer.
func (c *Client) Typing(ctx context.Context, where message.Conversation, on bool, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := c.rpc.SetTyping(ctx, &channelv1.SetTypingRequest{
		Conversation: conversationToWire(where), Typing: on, Ttl: durationpb.New(ttl),
	})
	if err != nil {
		return fmt.Errorf("show typing on %s: %w", c.Instance, err)
	}
	return nil
}

// Reconcile asks for the outcome of a reply for which it was unknown: Sent, NotSent, or still Unknown.
func (c *Client) Reconcile(ctx context.Context, r message.Reply) (message.Delivery, error) {
	ctx, cancel := c.Effect(ctx)
	defer cancel()
	out, err := c.rpc.Reconcile(ctx, &channelv1.ReconcileRequest{
		IdempotencyKey: r.Key, Conversation: conversationToWire(r.Conversation), Text: valid(r.Text),
	})
	if err != nil {
		return message.Delivery{Outcome: message.Unknown}, fmt.Errorf("reconcile on %s: %w", c.Instance, err)
	}
	return message.Delivery{Outcome: outcomeFromWire(out.GetOutcome()), PlatformIDs: idsFromWire(out.GetMessageIds())}, nil
}

// resume drops a position that is not a valid id: then the message is sent from its beginning.
func resume(text string) string {
	if bounds.ID(text) != nil {
		return ""
	}
	return text
}

// Bounds on answers.
const (
	maxMessageIDs = 64 // count
	maxRetryAfter = 24 * time.Hour
)

// valid makes a text valid UTF-8, so that a stray byte of a model does not fail the call.
func valid(text string) string { return kind.Text(text, 1<<19) }

func outcomeFromWire(o channelv1.Outcome) message.Outcome {
	switch o {
	case channelv1.Outcome_OUTCOME_SENT:
		return message.Sent
	case channelv1.Outcome_OUTCOME_DUPLICATE:
		return message.Duplicate
	case channelv1.Outcome_OUTCOME_NOT_SENT:
		return message.NotSent
	default:
		return message.Unknown
	}
}

// neverWorks reports whether an error of a call says that the same call can never succeed.
func neverWorks(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.Unimplemented, codes.PermissionDenied, codes.OutOfRange:
		return true
	}
	return false
}

// outcomeOfError is NotSent for the codes with which a plugin or gRPC reports that nothing was done.
func outcomeOfError(err error) message.Outcome {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.Unimplemented, codes.ResourceExhausted:
		return message.NotSent
	default:
		return message.Unknown
	}
}

func idsFromWire(ids []string) []string {
	var out []string
	for _, id := range ids[:min(len(ids), maxMessageIDs)] {
		if id != "" && bounds.ID(id) == nil {
			out = append(out, id)
		}
	}
	return out
}

func retryAfter(d *durationpb.Duration) time.Duration {
	return min(max(d.AsDuration(), 0), maxRetryAfter)
}
