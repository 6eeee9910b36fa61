package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.mau.fi/whatsmeow"
	"go.mau.fi/whatsmeow/proto/waE2E"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/flynnhost/flynn/sdk/channel"
)

const (
	maxHandle = 1000 // bytes; the host takes a little more
	sha256Len = 32
)

// keys are what is needed to get and to read a medium: where it is, its hashes, and the key. A handle is made of nothing else, so
// that there is no table of media to be kept.
type keys interface {
	whatsmeow.DownloadableMessage
	GetFileLength() uint64
	GetMimetype() string
}

// mediumOf returns the medium of a message and its sort.
func mediumOf(m *waE2E.Message) (k keys, kind, name string) {
	switch {
	case m.GetImageMessage() != nil:
		return m.GetImageMessage(), "image", ""
	case m.GetVideoMessage() != nil:
		return m.GetVideoMessage(), "video", ""
	case m.GetAudioMessage() != nil:
		return m.GetAudioMessage(), "audio", ""
	case m.GetDocumentMessage() != nil:
		return m.GetDocumentMessage(), "document", m.GetDocumentMessage().GetFileName()
	case m.GetStickerMessage() != nil:
		return m.GetStickerMessage(), "image", "" // encrypted like a picture
	}
	return nil, "", ""
}

func attachmentOf(m *waE2E.Message) (channel.Attachment, bool) {
	k, kind, name := mediumOf(m)
	if k == nil {
		return channel.Attachment{}, false
	}
	mediaType, _, _ := strings.Cut(k.GetMimetype(), ";")
	handle, err := handleOf(medium(kind, mediaType, "", whatsmeow.UploadResponse{
		DirectPath: k.GetDirectPath(), MediaKey: k.GetMediaKey(), FileEncSHA256: k.GetFileEncSHA256(), FileSHA256: k.GetFileSHA256(), FileLength: k.GetFileLength(),
	}))
	if err != nil || k.GetFileLength() > maxAttachment {
		return channel.Attachment{}, false
	}
	return channel.Attachment{Handle: handle, Name: name, Type: mediaType, Size: int64(k.GetFileLength())}, true
}

// medium makes the message of a medium.
func medium(kind, mediaType, name string, u whatsmeow.UploadResponse) *waE2E.Message {
	url := proto.String(u.URL)
	if u.URL == "" {
		url = nil
	}
	switch kind {
	case "image":
		return &waE2E.Message{ImageMessage: &waE2E.ImageMessage{
			URL: url, DirectPath: &u.DirectPath, MediaKey: u.MediaKey, FileEncSHA256: u.FileEncSHA256, FileSHA256: u.FileSHA256, FileLength: &u.FileLength, Mimetype: &mediaType,
		}}
	case "video":
		return &waE2E.Message{VideoMessage: &waE2E.VideoMessage{
			URL: url, DirectPath: &u.DirectPath, MediaKey: u.MediaKey, FileEncSHA256: u.FileEncSHA256, FileSHA256: u.FileSHA256, FileLength: &u.FileLength, Mimetype: &mediaType,
		}}
	case "audio":
		return &waE2E.Message{AudioMessage: &waE2E.AudioMessage{
			URL: url, DirectPath: &u.DirectPath, MediaKey: u.MediaKey, FileEncSHA256: u.FileEncSHA256, FileSHA256: u.FileSHA256, FileLength: &u.FileLength, Mimetype: &mediaType,
		}}
	}
	d := &waE2E.DocumentMessage{
		URL: url, DirectPath: &u.DirectPath, MediaKey: u.MediaKey, FileEncSHA256: u.FileEncSHA256, FileSHA256: u.FileSHA256, FileLength: &u.FileLength, Mimetype: &mediaType,
	}
	if name != "" {
		d.FileName, d.Title = &name, &name
	}
	return &waE2E.Message{DocumentMessage: d}
}

// handleOf writes the keys of a medium as a handle.
func handleOf(m *waE2E.Message) (string, error) {
	wire, err := proto.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("name the medium: %w", err)
	}
	handle := base64.RawURLEncoding.EncodeToString(wire)
	if len(handle) > maxHandle {
		return "", errors.New("name the medium: its path is too long")
	}
	if _, err := parseHandle(handle); err != nil {
		return "", err
	}
	return handle, nil
}

// parseHandle reads a handle. It takes only what handleOf writes: a path below WhatsApp's own servers, never an address.
func parseHandle(handle string) (*waE2E.Message, error) {
	wrong := status.Error(codes.InvalidArgument, "this is not the handle of a file in WhatsApp")
	wire, err := base64.RawURLEncoding.DecodeString(handle)
	if err != nil || len(handle) > maxHandle {
		return nil, wrong
	}
	m := &waE2E.Message{}
	if proto.Unmarshal(wire, m) != nil {
		return nil, wrong
	}
	k, _, _ := mediumOf(m)
	if k == nil || !strings.HasPrefix(k.GetDirectPath(), "/") || strings.ContainsAny(k.GetDirectPath(), "@\\ ") ||
		len(k.GetMediaKey()) != sha256Len || len(k.GetFileSHA256()) != sha256Len || len(k.GetFileEncSHA256()) != sha256Len {
		return nil, wrong
	}
	if u, ok := k.(interface{ GetURL() string }); ok && u.GetURL() != "" && !strings.HasPrefix(u.GetURL(), "https://mmg.whatsapp.net/") {
		return nil, wrong
	}
	return m, nil
}

// Fetch implements line. A medium is read into a file of the state folder, which goes with the body.
func (l *linked) Fetch(ctx context.Context, handle string) (channel.Media, error) {
	m, err := parseHandle(handle)
	if err != nil {
		return channel.Media{}, err
	}
	d, err := l.current()
	if err != nil {
		return channel.Media{}, err
	}
	k, _, name := mediumOf(m)
	if k.GetFileLength() > maxAttachment {
		return channel.Media{}, status.Errorf(codes.FailedPrecondition, "the medium is larger than %d MiB", maxAttachment>>20)
	}
	f, err := l.scratch()
	if err != nil {
		return channel.Media{}, err
	}
	if err := d.Download(ctx, k, f.File); err != nil {
		f.Close()
		return channel.Media{}, fmt.Errorf("fetch the medium: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil && size > maxAttachment {
		err = fmt.Errorf("more than %d MiB", maxAttachment>>20)
	}
	if err != nil {
		f.Close()
		return channel.Media{}, fmt.Errorf("read the medium of %d bytes: %w", size, err)
	}
	return channel.Media{Name: name, Type: k.GetMimetype(), Size: size, Body: f}, nil
}

// scratchFile is gone when it is closed.
type scratchFile struct{ *os.File }

// Close implements io.Closer.
func (f scratchFile) Close() error {
	return errors.Join(f.File.Close(), os.Remove(f.Name()))
}

func (l *linked) scratch() (scratchFile, error) {
	f, err := os.CreateTemp(l.dir, "medium-*")
	if err != nil {
		return scratchFile{}, fmt.Errorf("make room for the medium: %w", err)
	}
	return scratchFile{f}, nil
}

// Upload implements line.
func (l *linked) Upload(ctx context.Context, m channel.Media) (string, error) {
	d, err := l.current()
	if err != nil {
		return "", err
	}
	f, err := l.scratch()
	if err != nil {
		return "", err
	}
	defer f.Close()
	n, err := io.Copy(f, io.LimitReader(m.Body, maxAttachment+1))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return "", fmt.Errorf("read the medium: %w", err)
	}
	if n == 0 || n > maxAttachment {
		return "", status.Errorf(codes.InvalidArgument, "whatsapp takes media of 1 byte to %d MiB; this one has %d", maxAttachment>>20, n)
	}
	kind := mediaKind(m.Type)
	u, err := d.Upload(ctx, f.File, mediaOf(kind))
	if err != nil {
		return "", fmt.Errorf("upload: %w", err)
	}
	u.URL = "" // the path suffices, and keeps the handle short
	return handleOf(medium(kind, m.Type, fileName(m), u))
}
