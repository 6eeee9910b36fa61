package conform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/proto/channelv1"
	"github.com/flynnhost/flynn/sdk/proto/handshake"
)

// sendChecks are about everything outbound, and media.
func sendChecks() []check {
	return []check{
		{name: "before-configure", kind: plugin.Channel, run: beforeConfigure, next: "answer calls before Configure with FAILED_PRECONDITION"},
		{name: "send", kind: plugin.Channel, run: send, next: "answer OUTCOME_SENT with the platform's message id when the platform took it"},
		{name: "send-duplicate", kind: plugin.Channel, run: duplicate, next: "remember idempotency keys and answer a repeated one with OUTCOME_DUPLICATE"},
		{name: "send-grease", kind: plugin.Channel, run: sendGrease, next: "take unknown formats as plain text and unknown conversations as groups; ignore unknown fields"},
		{name: "send-cancel", kind: plugin.Channel, run: sendCancel, next: "stop working on a call when its context ends, and go on with the next"},
		{name: "senders", kind: plugin.Channel, run: senders, next: "write under [channel] and in Describe what the platform proves about a sender: proved, claimed or none"},
		{name: "capabilities", kind: plugin.Channel, run: capabilities, next: "answer UNIMPLEMENTED exactly for what plugin.toml does not name under [channel]"},
		{name: "edit-stale", kind: plugin.Channel, run: editStale, next: "drop an edit whose revision is not above the last one: applied = false"},
		{name: "typing", kind: plugin.Channel, run: typing, next: "show typing once for each call; the host repeats it"},
		{name: "fetch", kind: plugin.Channel, run: fetch, next: "answer Fetch with one head, then chunks of at most 256 KiB"},
		{name: "fetch-unknown", kind: plugin.Channel, run: fetchUnknown, next: "answer an unknown handle with a status, NOT_FOUND if possible"},
		{name: "upload", kind: plugin.Channel, run: upload, next: "take one head, then chunks of at most 256 KiB, and answer with a handle"},
	}
}

// talking is a configured process and a conversation in which it can send.
func (b *bench) talking(ctx context.Context) (*subject, *channelv1.Conversation, error) {
	s, st, err := b.listening(ctx, 32)
	if err != nil {
		return nil, nil, err
	}
	list, err := b.some(ctx, st, 1, true)
	if err != nil {
		return nil, nil, err
	}
	return s, list[0].GetConversation(), nil
}

func message(where *channelv1.Conversation, text string) *channelv1.SendRequest {
	return &channelv1.SendRequest{
		IdempotencyKey: "key of " + text, Conversation: where, Text: text, Format: channelv1.TextFormat_TEXT_FORMAT_PLAIN,
	}
}

// sends makes a send that has to be delivered and, where a fake platform shows it, to be shown.
func (s *subject) sends(ctx context.Context, b *bench, r *channelv1.SendRequest) (*channelv1.SendResponse, error) {
	call, cancel := context.WithTimeout(ctx, b.patience())
	defer cancel()
	out, err := s.channel.Send(call, r)
	if err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	if out.GetOutcome() != channelv1.Outcome_OUTCOME_SENT {
		return nil, fmt.Errorf("send: the outcome is %v (%s), want OUTCOME_SENT", out.GetOutcome(), out.GetDetail())
	}
	if b.platform != nil {
		if _, err := b.platform.await(call, 1, shows(r.GetText())); err != nil {
			return nil, fmt.Errorf("send: the outcome is OUTCOME_SENT, but the fake platform shows nothing: %w", err)
		}
	}
	return out, nil
}

func shows(text string) func(fake.Report) bool {
	return func(r fake.Report) bool { return r.Shown != nil && strings.Contains(r.Shown.Text, text) }
}

func beforeConfigure(ctx context.Context, b *bench) error {
	s, err := b.start(ctx, false)
	if err != nil {
		return err
	}
	_, err = s.channel.Send(ctx, message(&channelv1.Conversation{Id: "c"}, "too early"))
	if err := code(err, "Send before Configure", codes.FailedPrecondition); err != nil {
		return err
	}
	return s.alive(ctx)
}

func send(ctx context.Context, b *bench) error {
	s, where, err := b.talking(ctx)
	if err != nil {
		return err
	}
	_, err = s.sends(ctx, b, message(where, "conform send"))
	return err
}

func duplicate(ctx context.Context, b *bench) error {
	s, where, err := b.talking(ctx)
	if err != nil {
		return err
	}
	const text = "conform once"
	first, err := s.sends(ctx, b, message(where, text))
	if err != nil {
		return err
	}
	again := message(where, text)
	again.PossibleDuplicate = true
	out, err := s.channel.Send(ctx, again)
	if err != nil {
		return fmt.Errorf("send the same key again: %w", err)
	}
	if out.GetOutcome() != channelv1.Outcome_OUTCOME_DUPLICATE {
		return fmt.Errorf("send the same key again: the outcome is %v, want OUTCOME_DUPLICATE", out.GetOutcome())
	}
	if ids := out.GetMessageIds(); len(ids) > 0 && !slices.Equal(ids, first.GetMessageIds()) {
		return fmt.Errorf("send the same key again: it names the messages %q, the first time %q", ids, first.GetMessageIds())
	}
	if b.platform == nil {
		return nil
	}
	// A message sent now is shown after one that was shown twice, if there was one.
	if _, err := s.sends(ctx, b, message(where, "conform end")); err != nil {
		return err
	}
	if n, _ := b.platform.count(shows(text)); n != 1 {
		return fmt.Errorf("the platform shows the message %d times", n)
	}
	return nil
}

func sendGrease(ctx context.Context, b *bench) error {
	s, where, err := b.talking(ctx)
	if err != nil {
		return err
	}
	r := grease(message(where, "conform grease"))
	r.Format = 77
	grease(r.Conversation)
	_, err = s.sends(ctx, b, r)
	return err
}

func sendCancel(ctx context.Context, b *bench) error {
	s, where, err := b.talking(ctx)
	if err != nil {
		return err
	}
	for i := range 20 {
		call, cancel := context.WithTimeout(ctx, time.Duration(i*i)*100*time.Microsecond)
		_, err := s.channel.Send(call, message(where, fmt.Sprint("conform cancelled ", i)))
		cancel()
		if err := code(err, "a send with a deadline that passes", codes.OK, codes.DeadlineExceeded, codes.Canceled); err != nil {
			return err
		}
	}
	if err := s.alive(ctx); err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, 2*b.patience()) // the platform may ask to slow down
	defer cancel()
	if _, err := s.channel.Send(call, message(where, "conform after all")); err != nil {
		return fmt.Errorf("after sends that were cut off: %w", err)
	}
	return nil
}

// senders looks whether the plugin says what its platform proves about a sender. That the process says the same as plugin.toml is part of
// the start.
func senders(_ context.Context, b *bench) error {
	declared := b.kit.manifest.Channel
	if declared.Senders == "" {
		return errors.New("channel.senders is missing in plugin.toml: the host takes every id for a mere claim, and every sender for a guest at most")
	}
	s, err := plugin.ReadSettings(b.kit.dir)
	if err != nil {
		return err
	}
	wrong, err := s.Check(declared.ClaimedWhen)
	for _, w := range wrong {
		if _, ok := declared.ClaimedWhen[strings.Join(w.Key, ".")]; ok {
			return fmt.Errorf("channel.claimed_when.%s is not a setting that the plugin takes: %s", strings.Join(w.Key, "."), w.Problem)
		}
	}
	return err
}

// capabilities calls everything optional: what is declared has to be there, and what is not has to say so.
func capabilities(ctx context.Context, b *bench) error {
	s, err := b.ready(ctx)
	if err != nil {
		return err
	}
	where := &channelv1.Conversation{Id: "conform-no-such-conversation"}
	c, declared := s.channel, b.kit.manifest.Channel
	for _, m := range []struct {
		name     string
		declared bool
		call     func(context.Context) error
	}{
		{"edit", declared.Edit, func(ctx context.Context) error {
			_, err := c.Edit(ctx, &channelv1.EditRequest{Conversation: where, MessageId: "1", Revision: 1, Text: "x"})
			return err
		}},
		{"delete", declared.Delete, func(ctx context.Context) error {
			_, err := c.Delete(ctx, &channelv1.DeleteRequest{Conversation: where, MessageId: "1"})
			return err
		}},
		{"react", declared.React, func(ctx context.Context) error {
			_, err := c.React(ctx, &channelv1.ReactRequest{Conversation: where, MessageId: "1", Reaction: "👍"})
			return err
		}},
		{"typing", declared.Typing, func(ctx context.Context) error {
			_, err := c.SetTyping(ctx, &channelv1.SetTypingRequest{Conversation: where, Typing: true, Ttl: durationpb.New(time.Second)})
			return err
		}},
		{"resolve", declared.Resolve, func(ctx context.Context) error {
			_, err := c.Resolve(ctx, &channelv1.ResolveRequest{Query: "conform"})
			return err
		}},
		{"reconcile", declared.Reconcile, func(ctx context.Context) error {
			_, err := c.Reconcile(ctx, &channelv1.ReconcileRequest{IdempotencyKey: "never sent", Conversation: where})
			return err
		}},
		{"fetch", declared.Fetch, func(ctx context.Context) error {
			st, err := c.Fetch(ctx, &channelv1.FetchRequest{Handle: "conform-no-such-handle"})
			if err == nil {
				_, err = st.Recv()
			}
			return err
		}},
		{"upload", declared.Upload, func(ctx context.Context) error { return uploadNothing(ctx, c) }},
	} {
		call, cancel := context.WithTimeout(ctx, b.patience())
		err := m.call(call)
		cancel()
		if has := status.Code(err) != codes.Unimplemented; has != m.declared {
			return fmt.Errorf("channel.%s is %v in plugin.toml, but the call answers %s", m.name, m.declared, describe(err))
		}
		if err := s.alive(ctx); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

func uploadNothing(ctx context.Context, c channelv1.ChannelClient) error {
	st, err := c.Upload(ctx)
	if err != nil {
		return err
	}
	_ = st.Send(&channelv1.UploadRequest{Frame: &channelv1.UploadRequest_Head{Head: &channelv1.MediaHead{}}}) // CloseAndRecv tells why
	_, err = st.CloseAndRecv()
	return err
}

func editStale(ctx context.Context, b *bench) error {
	if !b.kit.manifest.Channel.Edit {
		return skip("the channel has no edit")
	}
	s, where, err := b.talking(ctx)
	if err != nil {
		return err
	}
	draft := message(where, "conform draft")
	draft.Draft = true
	sent, err := s.sends(ctx, b, draft)
	if err != nil {
		return err
	}
	if len(sent.GetMessageIds()) == 0 {
		return errors.New("a draft was sent and has no message id to edit it by")
	}
	edit := func(revision uint64) (bool, error) {
		out, err := s.channel.Edit(ctx, grease(&channelv1.EditRequest{
			Conversation: where, MessageId: sent.GetMessageIds()[0], Revision: revision, Text: fmt.Sprint("conform revision ", revision),
		}))
		if err != nil {
			return false, fmt.Errorf("edit to revision %d: %w", revision, err)
		}
		return out.GetApplied(), nil
	}
	if applied, err := edit(5); err != nil || !applied {
		return errors.Join(err, fmt.Errorf("the edit to revision 5 was not applied"))
	}
	if applied, err := edit(4); err != nil || applied {
		return errors.Join(err, fmt.Errorf("the edit to revision 4 was applied after that to revision 5"))
	}
	return nil
}

// typingWatch is longer than the time for which typing was to show.
const typingWatch = 2 * time.Second

func typing(ctx context.Context, b *bench) error {
	if !b.kit.manifest.Channel.Typing {
		return skip("the channel has no typing")
	}
	s, where, err := b.talking(ctx)
	if err != nil {
		return err
	}
	show := &channelv1.SetTypingRequest{Conversation: where, Typing: true, Ttl: durationpb.New(time.Second)}
	if _, err := s.channel.SetTyping(ctx, grease(show)); err != nil {
		return fmt.Errorf("show typing: %w", err)
	}
	if b.platform != nil {
		watch, cancel := context.WithTimeout(ctx, max(typingWatch, b.quiet()))
		defer cancel()
		if n, err := b.platform.await(watch, 2, func(r fake.Report) bool { return r.Typing }); err == nil {
			return fmt.Errorf("one call shows typing %d times", n)
		}
	}
	_, err = s.channel.SetTyping(ctx, &channelv1.SetTypingRequest{Conversation: where})
	return err
}

// mediaSize needs three chunks.
const mediaSize = 2*handshake.MaxChunk + 1000

func fetch(ctx context.Context, b *bench) error {
	if !b.kit.manifest.Channel.Fetch {
		return skip("the channel has no fetch")
	}
	if len(b.kit.file.Fake.Command) == 0 {
		return skip("there is no fake platform in %s to post an attachment", FileName)
	}
	s, st, err := b.listening(ctx, 4)
	if err != nil {
		return err
	}
	b.posted++
	p := &fake.Post{ID: fmt.Sprint("conform-", b.posted), Text: "conform media", Media: mediaSize}
	if err := b.platform.tell(fake.Command{Post: p}); err != nil {
		return err
	}
	e, err := st.next(ctx, b.patience())
	if err != nil {
		return b.missing(err)
	}
	if len(e.GetAttachments()) == 0 {
		return skip("the fake platform posts no attachments")
	}
	return s.fetches(ctx, e.GetAttachments()[0].GetHandle())
}

// fetches reads media frame by frame.
func (s *subject) fetches(ctx context.Context, handle string) error {
	st, err := s.channel.Fetch(ctx, grease(&channelv1.FetchRequest{Handle: handle}))
	if err != nil {
		return err
	}
	first, err := st.Recv()
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	head := first.GetHead()
	if head == nil {
		return errors.New("fetch: the first frame is not the head")
	}
	sum, size := sha256.New(), uint64(0)
	for {
		frame, err := st.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("fetch: after %d bytes: %w", size, err)
		}
		if frame.GetHead() != nil {
			return errors.New("fetch: there is a second head")
		}
		if n := len(frame.GetChunk()); n > handshake.MaxChunk {
			return fmt.Errorf("fetch: a chunk has %d bytes, at most %d", n, handshake.MaxChunk)
		}
		sum.Write(frame.GetChunk())
		size += uint64(len(frame.GetChunk()))
	}
	switch {
	case size == 0:
		return errors.New("fetch: no bytes came")
	case head.GetSize() != 0 && head.GetSize() != size:
		return fmt.Errorf("fetch: the head says %d bytes, %d came", head.GetSize(), size)
	case head.GetSha256() != "" && head.GetSha256() != hex.EncodeToString(sum.Sum(nil)):
		return errors.New("fetch: the bytes are not those of the head's digest")
	}
	return nil
}

func fetchUnknown(ctx context.Context, b *bench) error {
	if !b.kit.manifest.Channel.Fetch {
		return skip("the channel has no fetch")
	}
	s, err := b.ready(ctx)
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, b.patience())
	defer cancel()
	st, err := s.channel.Fetch(call, &channelv1.FetchRequest{Handle: "../../etc/passwd"})
	if err == nil {
		_, err = st.Recv()
	}
	if c := status.Code(err); c == codes.OK || c == codes.DeadlineExceeded || c == codes.Unimplemented {
		return fmt.Errorf("fetch of an unknown handle answers %s", describe(err))
	}
	return s.alive(ctx)
}

func upload(ctx context.Context, b *bench) error {
	if !b.kit.manifest.Channel.Upload {
		return skip("the channel has no upload")
	}
	s, where, err := b.talking(ctx)
	if err != nil {
		return err
	}
	st, err := s.channel.Upload(ctx)
	if err != nil {
		return err
	}
	body := []byte(strings.Repeat("conform ", mediaSize/8))
	sum := sha256.Sum256(body)
	head := &channelv1.MediaHead{Size: uint64(len(body)), Sha256: hex.EncodeToString(sum[:]), MediaType: "text/plain", Name: "conform.txt"}
	frames := []*channelv1.UploadRequest{{Frame: &channelv1.UploadRequest_Head{Head: grease(head)}}, grease(&channelv1.UploadRequest{})}
	for chunk := range slices.Chunk(body, handshake.MaxChunk) {
		frames = append(frames, &channelv1.UploadRequest{Frame: &channelv1.UploadRequest_Chunk{Chunk: chunk}})
	}
	for _, f := range frames {
		if st.Send(f) != nil {
			break // CloseAndRecv tells why
		}
	}
	out, err := st.CloseAndRecv()
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	if out.GetHandle() == "" {
		return errors.New("upload: the answer has no handle")
	}
	r := message(where, "conform with a file")
	r.Attachments = []*channelv1.Attachment{{Handle: out.GetHandle(), Name: "conform.txt", MediaType: "text/plain", Size: uint64(len(body))}}
	sent, err := s.channel.Send(ctx, r)
	if err != nil {
		return fmt.Errorf("send what was uploaded: %w", err)
	}
	if sent.GetOutcome() != channelv1.Outcome_OUTCOME_SENT {
		return fmt.Errorf("send what was uploaded: the outcome is %v (%s)", sent.GetOutcome(), sent.GetDetail())
	}
	return nil
}
