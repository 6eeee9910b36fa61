package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/slack-go/slack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/channel"
)

const transferTimeout = 5 * time.Minute

// Fetch implements channel.Fetcher. A handle is the id of a file; where its bytes are is asked for each time, since the address ages.
func (p *plugin) Fetch(ctx context.Context, handle string) (channel.Media, error) {
	if !slackID(handle, "F") {
		return channel.Media{}, status.Errorf(codes.InvalidArgument, "%q is no file of slack", handle)
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	f, _, _, err := p.web.client.GetFileInfoContext(ctx, handle, 1, 1)
	if err != nil {
		cancel()
		return channel.Media{}, final("look the file up", err)
	}
	body, err := p.web.download(ctx, firstOf(f.URLPrivateDownload, f.URLPrivate), f.Mimetype)
	if err != nil {
		cancel()
		return channel.Media{}, err
	}
	return channel.Media{Name: f.Name, Type: f.Mimetype, Size: int64(f.Size), Body: channel.Bounded(body, maxAttachment, cancel)}, nil
}

// download opens a file with the bot's token, which goes to Slack only: what a message says of a file may name any address.
func (w *web) download(ctx context.Context, address, mediaType string) (io.ReadCloser, error) {
	if !w.mayHaveToken(address) {
		return nil, status.Error(codes.FailedPrecondition, "fetch the file: it is not kept by slack")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, clean("fetch the file", err)
	}
	r.Header.Set("Authorization", "Bearer "+w.token)
	resp, err := w.http.Do(r)
	if err != nil {
		return nil, clean("fetch the file", err)
	}
	page := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") && !strings.HasPrefix(mediaType, "text/html")
	if resp.StatusCode != http.StatusOK || page {
		resp.Body.Close()
		if page || resp.StatusCode/100 == 3 {
			return nil, errors.New("fetch the file: slack asks to sign in; the app needs the scope files:read")
		}
		return nil, fmt.Errorf("fetch the file: slack answers %s", resp.Status)
	}
	return resp.Body, nil
}

// mayHaveToken reports whether an address is Slack's: one of its domains, or the API's own host.
func (w *web) mayHaveToken(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return false
	}
	if u.Scheme == w.api.Scheme && u.Host == w.api.Host {
		return true
	}
	host := strings.ToLower(u.Hostname())
	for _, own := range []string{"slack.com", "slack-gov.com", "slack-files.com"} {
		if u.Scheme == "https" && (host == own || strings.HasSuffix(host, "."+own)) {
			return true
		}
	}
	return false
}

// Upload implements channel.Uploader. Slack wants to know the size ahead; the file is seen by nobody until it is shared.
func (p *plugin) Upload(ctx context.Context, m channel.Media) (string, error) {
	if m.Size <= 0 || m.Size > maxAttachment {
		return "", status.Errorf(codes.InvalidArgument, "slack takes files of 1 byte to %d MiB whose size is known; this one has %d bytes", maxAttachment>>20, m.Size)
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
	name := firstOf(strings.TrimSpace(m.Name), "file")
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
	ctx, cancel := callDeadline(ctx)
	defer cancel()
	files := make([]slack.FileSummary, 0, len(list))
	for _, a := range list {
		files = append(files, slack.FileSummary{ID: a.Handle, Title: a.Name})
	}
	_, err := p.web.client.CompleteUploadExternalContext(ctx, slack.CompleteUploadExternalParameters{Files: files, Channel: where, ThreadTimestamp: thread})
	return err
}
