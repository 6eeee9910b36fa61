package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/slack-go/slack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// Fetch implements channel.Fetcher. A handle is the id of a file; its address is requested each time, because it expires.
func (p *plugin) Fetch(ctx context.Context, handle string) (channel.Media, error) {
	if !slackID(handle, "F") {
		return channel.Media{}, status.Errorf(codes.InvalidArgument, "%q is not the handle of a file in slack", handle)
	}
	f, _, _, err := p.web.client.GetFileInfoContext(ctx, handle, 1, 1)
	if err != nil {
		return channel.Media{}, final("look the file up", err)
	}
	body, err := p.web.download(ctx, cmp.Or(f.URLPrivateDownload, f.URLPrivate), f.Mimetype)
	if err != nil {
		return channel.Media{}, err
	}
	return channel.Media{Name: f.Name, Type: f.Mimetype, Size: int64(f.Size), Body: channel.Bounded(body, maxAttachment, nil)}, nil
}

// download opens a file with the bot's token, which is sent to Slack only: a message may name any address for a file.
func (w *web) download(ctx context.Context, address, mediaType string) (io.ReadCloser, error) {
	if !webapi.Owned(address, w.api, "slack.com", "slack-gov.com", "slack-files.com") {
		return nil, status.Error(codes.FailedPrecondition, "fetch the file: it is not kept by slack")
	}
	answer, err := webapi.Get(ctx, w.http, address, w.token)
	if other, ok := errors.AsType[*webapi.StatusError](err); ok && other.Code/100 == 3 {
		return nil, errSignIn
	}
	if err != nil {
		return nil, clean("fetch the file", err)
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") && !strings.HasPrefix(mediaType, "text/html") {
		answer.Body.Close()
		return nil, errSignIn
	}
	return answer.Body, nil
}

var errSignIn = errors.New("fetch the file: slack asks to sign in; the app needs the scope files:read")

// Upload implements channel.Uploader. Slack requires the size in advance; the file is visible to nobody until it is shared.
func (p *plugin) Upload(ctx context.Context, m channel.Media) (string, error) {
	if m.Size <= 0 || m.Size > maxAttachment {
		return "", status.Errorf(codes.InvalidArgument, "slack takes files of 1 byte to %d MiB whose size is known; this one has %d bytes", maxAttachment>>20, m.Size)
	}
	name := cmp.Or(strings.TrimSpace(m.Name), "file")
	to, err := p.web.client.GetUploadURLExternalContext(ctx, slack.GetUploadURLExternalParameters{FileName: name, FileSize: int(m.Size)})
	if err != nil {
		return "", final("prepare the upload", err)
	}
	err = p.web.client.UploadToURL(ctx, slack.UploadToURLParameters{
		UploadURL: to.UploadURL, Filename: name, Reader: io.LimitReader(m.Body, m.Size),
	})
	if err != nil {
		return "", clean("upload", err)
	}
	return to.FileID, nil
}

// share shows uploaded files in a conversation.
func (p *plugin) share(ctx context.Context, where, thread string, list []channel.Attachment) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	files := make([]slack.FileSummary, 0, len(list))
	for _, a := range list {
		files = append(files, slack.FileSummary{ID: a.Handle, Title: a.Name})
	}
	_, err := p.web.client.CompleteUploadExternalContext(ctx, slack.CompleteUploadExternalParameters{Files: files, Channel: where, ThreadTimestamp: thread})
	return err
}
