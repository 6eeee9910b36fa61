package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/url"
	"path"
	"strings"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// attachments returns the media of a message, by their file ids. An album is several messages.
func attachments(m *models.Message) []channel.Attachment {
	var list []channel.Attachment
	add := func(handle, name, kind string, size int64) {
		list = append(list, channel.Attachment{Handle: handle, Name: name, Type: kind, Size: size})
	}
	if photo := largest(m.Photo); photo != nil {
		add(photo.FileID, "photo.jpg", "image/jpeg", int64(photo.FileSize))
	}
	switch {
	case m.Animation != nil: // has a document, too, for old programs
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

// largest returns the best form of a photo.
func largest(sizes []models.PhotoSize) *models.PhotoSize {
	var best *models.PhotoSize
	for i := range sizes {
		if s := &sizes[i]; best == nil || s.Width*s.Height > best.Width*best.Height {
			best = s
		}
	}
	return best
}

// Fetch implements channel.Fetcher.
func (p *plugin) Fetch(ctx context.Context, handle string) (channel.Media, error) {
	m, err := p.fetch(ctx, handle)
	return m, p.api.final(err)
}

func (p *plugin) fetch(ctx context.Context, handle string) (channel.Media, error) {
	f, err := p.api.GetFile(ctx, &bot.GetFileParams{FileID: handle})
	if says(err, "file is too big") {
		return channel.Media{}, fmt.Errorf("%w: Telegram lets bots download files of at most 20 MB", bot.ErrorBadRequest)
	}
	if err != nil {
		return channel.Media{}, fmt.Errorf("fetch file: %w", err)
	}
	if !fs.ValidPath(f.FilePath) || f.FilePath == "." { // a server that hands out its own disk gives an absolute one
		return channel.Media{}, errors.New("fetch file: the server gives no path below its address; is it run with --local?")
	}
	address := p.api.base + "/file/bot" + p.api.token + "/" + (&url.URL{Path: f.FilePath}).EscapedPath()
	resp, err := webapi.Get(ctx, p.api.wire.client, address, "")
	if err != nil {
		return channel.Media{}, fmt.Errorf("fetch file: %w", err)
	}
	name := path.Base(f.FilePath)
	kind, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(name)), ";")
	return channel.Media{Name: name, Type: kind, Size: max(resp.ContentLength, 0), Body: resp.Body}, nil
}
