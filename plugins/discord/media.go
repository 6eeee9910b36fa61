package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/flynnhost/flynn/sdk/channel"
)

// maxFetch bounds an attachment that people send; Discord takes up to 500 MB from some.
const maxFetch = 512 << 20

// Fetch implements channel.Fetcher. The address of an attachment expires, so it is asked for anew through its message.
func (p *plugin) Fetch(ctx context.Context, handle string) (channel.Media, error) {
	parts := strings.Split(handle, "/")
	if len(parts) != 3 || !isSnowflake(parts[0]) || !isSnowflake(parts[1]) || !isSnowflake(parts[2]) {
		return channel.Media{}, fmt.Errorf("%q is not the handle of an attachment", handle)
	}
	var m discordgo.Message
	if err := p.client.call(ctx, "GET", "/channels/"+parts[0]+"/messages/"+parts[1], nil, &m); err != nil {
		return channel.Media{}, fmt.Errorf("find attachment: %w", err)
	}
	for _, a := range m.Attachments {
		if a != nil && a.ID == parts[2] {
			return p.download(ctx, a)
		}
	}
	return channel.Media{}, errors.New("the message has lost its attachment")
}

func (p *plugin) download(ctx context.Context, a *discordgo.MessageAttachment) (channel.Media, error) {
	ok := false
	for _, base := range p.settings.CDN {
		ok = ok || strings.HasPrefix(a.URL, strings.TrimRight(base, "/")+"/")
	}
	if !ok {
		return channel.Media{}, errors.New("the attachment does not lie on one of the addresses under cdn")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
	if err != nil {
		return channel.Media{}, fmt.Errorf("fetch attachment: %w", err)
	}
	answer, err := p.client.http.Do(r)
	if err != nil {
		return channel.Media{}, fmt.Errorf("fetch attachment: %w", err)
	}
	if answer.StatusCode != http.StatusOK || answer.ContentLength > maxFetch {
		answer.Body.Close()
		return channel.Media{}, fmt.Errorf("fetch attachment: discord answers %d, with %d bytes", answer.StatusCode, answer.ContentLength)
	}
	body := channel.Bounded(answer.Body, maxFetch, nil)
	return channel.Media{Name: a.Filename, Type: a.ContentType, Size: max(answer.ContentLength, 0), Body: body}, nil
}

// upload is what is kept of media ahead of a send, beside its bytes.
type upload struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// keepUploads is how long media waits for its send.
const keepUploads = 24 * time.Hour

func (p *plugin) uploads() string { return filepath.Join(p.stateDir, "uploads") }

// sweepUploads removes media whose send never came.
func (p *plugin) sweepUploads(now time.Time) error {
	if err := os.MkdirAll(p.uploads(), 0o700); err != nil {
		return fmt.Errorf("make folder for uploads: %w", err)
	}
	entries, err := os.ReadDir(p.uploads())
	if err != nil {
		return fmt.Errorf("read folder of uploads: %w", err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > keepUploads {
			_ = os.Remove(filepath.Join(p.uploads(), e.Name()))
		}
	}
	return nil
}

// Upload implements channel.Uploader. Discord takes files only along with a message, so they wait on disk for it.
func (p *plugin) Upload(_ context.Context, m channel.Media) (string, error) {
	if m.Size > maxFile {
		return "", fmt.Errorf("%d bytes are more than the %d that discord takes", m.Size, maxFile)
	}
	var random [16]byte
	_, _ = rand.Read(random[:])
	handle := hex.EncodeToString(random[:])
	f, err := os.OpenFile(filepath.Join(p.uploads(), handle), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("keep upload: %w", err)
	}
	n, err := io.Copy(f, io.LimitReader(m.Body, maxFile+1))
	if err = errors.Join(err, f.Close()); err == nil && n > maxFile {
		err = fmt.Errorf("more than the %d bytes that discord takes", maxFile)
	}
	about, _ := json.Marshal(upload{m.Name, m.Type})
	if err == nil {
		err = os.WriteFile(f.Name()+".json", about, 0o600)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("keep upload: %w", err)
	}
	return handle, nil
}

// uploaded reads media that waits for its send.
func (p *plugin) uploaded(a channel.Attachment) (upload, []byte, error) {
	if len(a.Handle) != 32 || strings.Trim(a.Handle, "0123456789abcdef") != "" {
		return upload{}, nil, fmt.Errorf("%q is not the handle of an upload", a.Handle)
	}
	path := filepath.Join(p.uploads(), a.Handle)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return upload{}, nil, errors.New("the upload is not there any more")
	}
	if err != nil {
		return upload{}, nil, fmt.Errorf("read upload: %w", err)
	}
	about := upload{Name: a.Name, Type: a.Type}
	if text, err := os.ReadFile(path + ".json"); err == nil {
		_ = json.Unmarshal(text, &about)
	}
	if a.Name != "" {
		about.Name = a.Name
	}
	return about, data, nil
}

func (p *plugin) dropUploads(list []channel.Attachment) {
	for _, a := range list {
		if len(a.Handle) == 32 && strings.Trim(a.Handle, "0123456789abcdef") == "" {
			_ = os.Remove(filepath.Join(p.uploads(), a.Handle))
			_ = os.Remove(filepath.Join(p.uploads(), a.Handle+".json"))
		}
	}
}
