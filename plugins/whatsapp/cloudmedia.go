package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flynnhost/flynn/sdk/channel"
)

// mediaKind is what WhatsApp calls a medium; everything that it cannot show is a document.
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

// Fetch implements line. A handle is the id of a medium; its address is asked for each time, since it ages within minutes.
func (c *cloud) Fetch(ctx context.Context, handle string) (channel.Media, error) {
	if !digits(handle) {
		return channel.Media{}, status.Errorf(codes.InvalidArgument, "%q is no medium of WhatsApp", handle)
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
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
		cancel()
		return channel.Media{}, final(err)
	}
	body, err := c.graph.download(ctx, at.URL)
	if err != nil {
		cancel()
		return channel.Media{}, err
	}
	kind, _, _ := strings.Cut(at.Mime, ";")
	m := channel.Media{Type: kind, Size: at.Size, Body: channel.Bounded(body, maxAttachment, cancel)}
	if len(at.SHA256) == 64 && strings.Trim(at.SHA256, "0123456789abcdef") == "" {
		m.SHA256 = at.SHA256
	}
	return m, nil
}

// download opens a medium with the token, which goes to Meta only.
func (g *graph) download(ctx context.Context, address string) (io.ReadCloser, error) {
	if !g.mayHaveToken(address) {
		return nil, status.Error(codes.FailedPrecondition, "fetch the medium: it is not kept by meta")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, clean(err)
	}
	r.Header.Set("Authorization", "Bearer "+g.token)
	resp, err := g.http.Do(r)
	if err != nil {
		return nil, clean(err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("fetch the medium: meta answers %s", resp.Status)
	}
	return resp.Body, nil
}

// mayHaveToken reports whether an address is Meta's: one of its domains, or the API's own host.
func (g *graph) mayHaveToken(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return false
	}
	if u.Host == g.apiHost && (u.Scheme == "https" || g.apiPlain && u.Scheme == "http") {
		return true
	}
	host := strings.ToLower(u.Hostname())
	for _, own := range []string{"fbsbx.com", "facebook.com", "whatsapp.net", "whatsapp.com"} {
		if u.Scheme == "https" && (host == own || strings.HasSuffix(host, "."+own)) {
			return true
		}
	}
	return false
}

// Upload implements line.
func (c *cloud) Upload(ctx context.Context, m channel.Media) (string, error) {
	if m.Size <= 0 || m.Size > maxAttachment {
		return "", status.Errorf(codes.InvalidArgument, "whatsapp takes media of 1 byte to %d MiB whose size is known; this one has %d bytes", maxAttachment>>20, m.Size)
	}
	ctx, cancel := context.WithTimeout(ctx, transferTimeout)
	defer cancel()
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

func fileName(m channel.Media) string {
	if name := strings.TrimSpace(m.Name); name != "" {
		return name
	}
	return "file"
}
