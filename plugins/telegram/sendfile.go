package main

import (
	"cmp"
	"context"
	"errors"
	"path"
	"strings"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"

	"github.com/flynnhost/flynn/sdk/channel"
)

// errGone means that the host does not have a file to send.
var errGone = errors.New("the file to send is not there")

// sendFile sends one uploaded file: a picture as a photo where Telegram takes it as such, everything else as a document.
func (p *plugin) sendFile(ctx context.Context, to place, t part) (*models.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTime)
	defer cancel()
	document := !isPhoto(t.file.Type)
	return inBothForms(t, func(text string, mode models.ParseMode) (*models.Message, error) {
		file, size, err := p.uploaded(ctx, *t.file)
		if err != nil {
			return nil, err
		}
		if !document && size <= maxPhoto {
			m, err := p.api.SendPhoto(ctx, &bot.SendPhotoParams{
				ChatID: to.chat, MessageThreadID: to.thread, Photo: file, Caption: text, ParseMode: mode,
				ReplyParameters: replying(t.replyTo), ReplyMarkup: t.markup,
			})
			if !says(err, "IMAGE_PROCESS_FAILED", "PHOTO_") {
				return m, err
			}
			document = true
			if file, _, err = p.uploaded(ctx, *t.file); err != nil {
				return nil, err
			}
		}
		return p.api.SendDocument(ctx, &bot.SendDocumentParams{
			ChatID: to.chat, MessageThreadID: to.thread, Document: file, Caption: text, ParseMode: mode,
			ReplyParameters: replying(t.replyTo), ReplyMarkup: t.markup,
		})
	})
}

// uploaded opens a file that the host stores until it is sent. Each attempt opens it again, because the library may still be reading for
// the last attempt when Telegram has answered.
func (p *plugin) uploaded(ctx context.Context, a channel.Attachment) (models.InputFile, int64, error) {
	m, err := p.Host.OpenMedia(ctx, a.Handle)
	if err != nil {
		return nil, 0, errors.Join(errGone, err)
	}
	return &models.InputFileUpload{Filename: fileName(a.Name), Data: m.Body}, m.Size, nil
}

// isPhoto reports whether Telegram shows a file as a photo. A GIF would lose its motion.
func isPhoto(kind string) bool {
	switch kind, _, _ := strings.Cut(strings.ToLower(kind), ";"); kind {
	case "image/jpeg", "image/png", "image/webp":
		return true
	}
	return false
}

const maxFileName = 60 // characters, as Telegram cuts them

// fileName returns a name without the path and the control characters that may be in it.
func fileName(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '"' || r == '\uFFFD' {
			return '_'
		}
		return r
	}, name)
	if r := []rune(name); len(r) > maxFileName {
		ext := []rune(path.Ext(name))
		ext = ext[:min(len(ext), 12)]
		name = string(r[:maxFileName-len(ext)]) + string(ext)
	}
	return cmp.Or(strings.Trim(name, "./ "), "file")
}
