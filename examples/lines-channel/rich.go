package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/channel"
)

// rich is what lines have besides, for a program that can do more than show messages. Events may have
//
//	"kind":"edit" (or "delete", "reaction"), "target":"1"     what was done, and to which event or message
//	"files":[{"handle":"f1","name":"a.txt"}]                  files that came with it
//
// and there are questions, which the program answers by {"type":"done","key":K} or {"type":"refused","key":K,"text":"why"}, the latter
// with "retry_ms" where it is about time and "never":true where it is for good:
//
//	{"type":"edit","key":K,"id":"k","revision":7,"text":"..","final":true}   k is the key of the send
//	{"type":"delete","key":K,"id":"k"}
//	{"type":"fetch","key":K,"id":"f1"}                                        "data" in the answer
//	{"type":"upload","key":K,"files":[{"name":"a.txt","type":".."}],"data":".."}   "id" in the answer is the handle
//
// A send may have "draft" and "files". {"type":"typing","conversation":"c","on":true} is not answered.
type rich struct {
	Kind     string `json:"kind,omitempty"`
	Target   string `json:"target,omitempty"`
	Files    []file `json:"files,omitempty"`
	Draft    bool   `json:"draft,omitempty"`
	Final    bool   `json:"final,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
	On       bool   `json:"on,omitempty"`
	Data     []byte `json:"data,omitempty"`
	RetryMS  int64  `json:"retry_ms,omitempty"`
	Never    bool   `json:"never,omitempty"`
}

type file struct {
	Handle string `json:"handle,omitempty"`
	Name   string `json:"name,omitempty"`
	Type   string `json:"type,omitempty"`
	Size   int64  `json:"size,omitempty"`
}

var kinds = map[string]channel.EventKind{"edit": channel.EventEdit, "delete": channel.EventDelete, "reaction": channel.EventReaction}

func (r rich) fill(e *channel.Event) {
	e.Kind, e.TargetID = kinds[r.Kind], r.Target
	for _, f := range r.Files {
		e.Attachments = append(e.Attachments, channel.Attachment(f))
	}
}

func (r rich) wait() time.Duration { return time.Duration(r.RetryMS) * time.Millisecond }

func sendRich(s channel.Send) rich {
	r := rich{Draft: s.Draft}
	for _, a := range s.Attachments {
		r.Files = append(r.Files, file(a))
	}
	return r
}

// Limits of a rich program.
const (
	maxText  = 400
	maxFile  = 256 << 10
	editWait = 100 * time.Millisecond
)

// richBridge is a bridge to a program that can do more.
type richBridge struct{ *bridge }

var (
	_ channel.Editor   = (*richBridge)(nil)
	_ channel.Deleter  = (*richBridge)(nil)
	_ channel.Typer    = (*richBridge)(nil)
	_ channel.Fetcher  = (*richBridge)(nil)
	_ channel.Uploader = (*richBridge)(nil)
)

// Describe implements channel.Channel.
func (b *richBridge) Describe() channel.Description {
	d := b.bridge.Describe()
	d.Capabilities.MaxTextRunes, d.Capabilities.MaxAttachmentBytes, d.Capabilities.MinEditInterval = maxText, maxFile, editWait
	return d
}

// asked numbers questions.
type asked struct{ n atomic.Uint64 }

// ask puts a question to the program.
func (b *richBridge) ask(ctx context.Context, m line) (line, error) {
	l := b.current()
	if l == nil {
		return line{}, errNotConnected
	}
	m.Key = fmt.Sprintf("%s-%d", m.Type, b.asked.n.Add(1))
	a, err := l.ask(ctx, m)
	switch {
	case err != nil:
		return a, err
	case a.Type == "refused" && a.Never:
		return a, status.Error(codes.FailedPrecondition, a.Text)
	case a.Type == "refused" && a.RetryMS == 0:
		return a, errors.New(a.Text)
	}
	return a, nil
}

// Edit implements channel.Editor.
func (b *richBridge) Edit(ctx context.Context, e channel.Edit) (channel.Edited, error) {
	a, err := b.ask(ctx, line{
		Type: "edit", ID: e.MessageID, Conversation: e.Conversation.ID, Text: e.Text, rich: rich{Revision: e.Revision, Final: e.Final},
	})
	return channel.Edited{RetryAfter: a.wait()}, err
}

// Delete implements channel.Deleter.
func (b *richBridge) Delete(ctx context.Context, c channel.Conversation, id string) error {
	_, err := b.ask(ctx, line{Type: "delete", ID: id, Conversation: c.ID})
	return err
}

// Typing implements channel.Typer.
func (b *richBridge) Typing(_ context.Context, t channel.Typing) error {
	l := b.current()
	if l == nil {
		return errNotConnected
	}
	l.put(line{Type: "typing", Conversation: t.Conversation.ID, rich: rich{On: t.On}})
	return nil
}

// Fetch implements channel.Fetcher.
func (b *richBridge) Fetch(ctx context.Context, handle string) (channel.Media, error) {
	a, err := b.ask(ctx, line{Type: "fetch", ID: handle})
	return channel.Media{Size: int64(len(a.Data)), Body: io.NopCloser(bytes.NewReader(a.Data))}, err
}

// Upload implements channel.Uploader.
func (b *richBridge) Upload(ctx context.Context, m channel.Media) (string, error) {
	data, err := io.ReadAll(io.LimitReader(m.Body, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxFile {
		return "", status.Error(codes.InvalidArgument, "the file is too large")
	}
	a, err := b.ask(ctx, line{Type: "upload", rich: rich{Files: []file{{Name: m.Name, Type: m.Type, Size: m.Size}}, Data: data}})
	return a.ID, err
}
