package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/flynnhost/flynn/sdk/channel"
)

// attachments are the media of a message, by their file ids. An album is several messages.
func attachments(m *models.Message) []channel.Attachment {
	var list []channel.Attachment
	add := func(handle, name, kind string, size int64) {
		list = append(list, channel.Attachment{Handle: handle, Name: name, Type: kind, Size: size})
	}
	if photo := largest(m.Photo); photo != nil {
		add(photo.FileID, "photo.jpg", "image/jpeg", int64(photo.FileSize))
	}
	switch {
	case m.Animation != nil: // comes with a document, for old programs
		add(m.Animation.FileID, cmp.Or(m.Animation.FileName, "animation.mp4"), cmp.Or(m.Animation.MimeType, "video/mp4"), int64(m.Animation.FileSize))
	case m.Document != nil:
		add(m.Document.FileID, cmp.Or(m.Document.FileName, "document"), m.Document.MimeType, int64(m.Document.FileSize))
	}
	if v := m.Voice; v != nil {
		add(v.FileID, "voice.ogg", cmp.Or(v.MimeType, "audio/ogg"), int64(v.FileSize))
	}
	if a := m.Audio; a != nil {
		add(a.FileID, cmp.Or(a.FileName, "audio.mp3"), cmp.Or(a.MimeType, "audio/mpeg"), int64(a.FileSize))
	}
	if v := m.Video; v != nil {
		add(v.FileID, cmp.Or(v.FileName, "video.mp4"), cmp.Or(v.MimeType, "video/mp4"), int64(v.FileSize))
	}
	if v := m.VideoNote; v != nil {
		add(v.FileID, "video.mp4", "video/mp4", int64(v.FileSize))
	}
	if s := m.Sticker; s != nil {
		name, kind := "sticker.webp", "image/webp"
		switch {
		case s.IsAnimated:
			name, kind = "sticker.tgs", "application/x-tgsticker"
		case s.IsVideo:
			name, kind = "sticker.webm", "video/webm"
		}
		add(s.FileID, name, kind, int64(s.FileSize))
	}
	return list
}

// largest is the best form of a photo.
func largest(sizes []models.PhotoSize) *models.PhotoSize {
	var best *models.PhotoSize
	for i := range sizes {
		if s := &sizes[i]; best == nil || s.Width*s.Height > best.Width*best.Height {
			best = s
		}
	}
	return best
}

// fetchTime bounds the reading of one attachment.
const fetchTime = 5 * time.Minute

// Fetch implements channel.Fetcher.
func (p *plugin) Fetch(ctx context.Context, handle string) (channel.Media, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	m, err := p.fetch(ctx, handle)
	if err != nil {
		cancel()
		return m, p.api.final(err)
	}
	m.Body = channel.Bounded(m.Body, math.MaxInt64, cancel)
	return m, nil
}

func (p *plugin) fetch(ctx context.Context, handle string) (channel.Media, error) {
	f, err := p.api.GetFile(ctx, &bot.GetFileParams{FileID: handle})
	if says(err, "file is too big") {
		return channel.Media{}, fmt.Errorf("%w: Telegram gives bots files of at most 20 MB", bot.ErrorBadRequest)
	}
	if err != nil {
		return channel.Media{}, fmt.Errorf("fetch file: %w", err)
	}
	if !fs.ValidPath(f.FilePath) || f.FilePath == "." { // an absolute one is of a server that hands out its disk
		return channel.Media{}, errors.New("fetch file: the server gives no path below its address; is it run with --local?")
	}
	address := p.api.base + "/file/bot" + p.api.token + "/" + (&url.URL{Path: f.FilePath}).EscapedPath()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return channel.Media{}, errors.New("fetch file: make its address")
	}
	resp, err := p.api.wire.download(r)
	if err != nil {
		return channel.Media{}, fmt.Errorf("fetch file: %w", err)
	}
	name := path.Base(f.FilePath)
	kind, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(name)), ";")
	return channel.Media{Name: name, Type: kind, Size: max(resp.ContentLength, 0), Body: resp.Body}, nil
}

// download makes a call whose answer is a file.
func (w *wire) download(r *http.Request) (*http.Response, error) {
	resp, err := w.client.Do(r)
	if err != nil {
		if where := (*url.Error)(nil); errors.As(err, &where) {
			err = where.Err // the address holds the token
		}
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, &statusError{resp.StatusCode}
	}
	return resp, nil
}
