package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/go-telegram/bot"
	"github.com/go-telegram/bot/models"
)

// errGone says that a file to send was not uploaded, or too long ago.
var errGone = errors.New("the file to send is not there")

// sendFile sends one uploaded file: a picture as a photo where Telegram takes it as such, everything else as a document.
func (p *plugin) sendFile(ctx context.Context, to place, t part) (*models.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTime)
	defer cancel()
	f, size, err := p.spool.open(t.file.Handle)
	if err != nil {
		return nil, errors.Join(errGone, err)
	}
	defer f.Close()
	// A reader of its own for each try: the library may still read for the last one when Telegram has answered.
	content := func() models.InputFile {
		return &models.InputFileUpload{Filename: fileName(t.file.Name), Data: io.NewSectionReader(f, 0, size)}
	}
	document := !isPhoto(t.file.Type) || size > maxPhoto
	return inBothForms(t, func(text string, mode models.ParseMode) (*models.Message, error) {
		if !document {
			m, err := p.api.SendPhoto(ctx, &bot.SendPhotoParams{
				ChatID: to.chat, MessageThreadID: to.thread, Photo: content(), Caption: text, ParseMode: mode,
				ReplyParameters: replying(t.replyTo), ReplyMarkup: t.markup,
			})
			if !says(err, "IMAGE_PROCESS_FAILED", "PHOTO_") {
				return m, err
			}
			document = true
		}
		return p.api.SendDocument(ctx, &bot.SendDocumentParams{
			ChatID: to.chat, MessageThreadID: to.thread, Document: content(), Caption: text, ParseMode: mode,
			ReplyParameters: replying(t.replyTo), ReplyMarkup: t.markup,
		})
	})
}

// isPhoto tells the pictures that Telegram shows as photos. A GIF would lose its motion.
func isPhoto(kind string) bool {
	switch kind, _, _ := strings.Cut(strings.ToLower(kind), ";"); kind {
	case "image/jpeg", "image/png", "image/webp":
		return true
	}
	return false
}

const maxFileName = 60 // characters, as Telegram cuts them

// fileName is a name without the path and the control characters that may be in it.
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
