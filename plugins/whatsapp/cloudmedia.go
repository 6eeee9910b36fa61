package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// mediaKind returns WhatsApp's kind of a medium; what it cannot show is sent as a document.
func mediaKind(mediaType string) string {
	switch mediaType {
	case "image/jpeg", "image/png":
		return "image"
	case "video/mp4", "video/3gpp":
		return "video"
	case "audio/aac", "audio/amr", "audio/mpeg", "audio/mp4", "audio/ogg":
		return "audio"
	}
	return "document"
}

// captioned reports whether a medium can have text below.
func captioned(mediaType string) bool { return mediaKind(mediaType) != "audio" }

// Fetch implements line. A handle is the id of a medium; its address is requested each time, because it expires within minutes.
func (c *cloud) Fetch(ctx context.Context, handle string) (channel.Media, error) {
	if !digits(handle) {
		return channel.Media{}, status.Errorf(codes.InvalidArgument, "%q is not the handle of a file in WhatsApp", handle)
	}
	var at struct {
		URL    string `json:"url"`
		Mime   string `json:"mime_type"`
		SHA256 string `json:"sha256"`
		Size   int64  `json:"file_size"`
	}
	err := c.graph.get(ctx, handle+"?phone_number_id="+c.graph.phone, &at)
	if err == nil && (at.Size < 0 || at.Size > maxAttachment) {
		err = status.Errorf(codes.FailedPrecondition, "the medium has %d bytes, and %d MiB are taken", at.Size, maxAttachment>>20)
	}
	if err != nil {
		return channel.Media{}, final(err)
	}
	if !webapi.Owned(at.URL, c.graph.base, "fbsbx.com", "facebook.com", "whatsapp.net", "whatsapp.com") {
		return channel.Media{}, status.Error(codes.FailedPrecondition, "fetch the medium: it is not kept by meta")
	}
	answer, err := webapi.Get(ctx, c.graph.http, at.URL, c.graph.token)
	if err != nil {
		return channel.Media{}, fmt.Errorf("fetch the medium: %w", err)
	}
	kind, _, _ := strings.Cut(at.Mime, ";")
	m := channel.Media{Type: kind, Size: at.Size, Body: channel.Bounded(answer.Body, maxAttachment, nil)}
	if len(at.SHA256) == 64 && strings.Trim(at.SHA256, "0123456789abcdef") == "" {
		m.SHA256 = at.SHA256
	}
	return m, nil
}

// Upload implements line.
func (c *cloud) Upload(ctx context.Context, m channel.Media) (string, error) {
	if m.Size <= 0 || m.Size > maxAttachment {
		return "", status.Errorf(codes.InvalidArgument, "whatsapp takes media of 1 byte to %d MiB whose size is known; this one has %d bytes", maxAttachment>>20, m.Size)
	}
	// The form is put around the bytes, so that they need not be held in memory.
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	_ = w.WriteField("messaging_product", "whatsapp")
	_ = w.WriteField("type", m.Type)
	head := textproto.MIMEHeader{}
	head.Set("Content-Type", m.Type)
	head.Set("Content-Disposition", multipart.FileContentDisposition("file", fileName(m)))
	if _, err := w.CreatePart(head); err != nil {
		return "", fmt.Errorf("upload: %w", err)
	}
	front := form.Len()
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("upload: %w", err)
	}
	all := form.Bytes()
	body := io.MultiReader(bytes.NewReader(all[:front]), io.LimitReader(m.Body, m.Size), bytes.NewReader(all[front:]))
	var answer struct {
		ID string `json:"id"`
	}
	if err := c.graph.do(ctx, http.MethodPost, c.graph.phone+"/media", w.FormDataContentType(), body, int64(len(all))+m.Size, &answer); err != nil {
		return "", final(err)
	}
	if !digits(answer.ID) {
		return "", errors.New("upload: meta names no medium")
	}
	return answer.ID, nil
}

func fileName(m channel.Media) string { return cmp.Or(strings.TrimSpace(m.Name), "file") }
