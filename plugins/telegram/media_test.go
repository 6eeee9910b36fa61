package main

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestMediaIn(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	chat := s.Private("Ann")
	id := s.AddFile("x.bin", []byte("the bytes"), 0)
	file := func(more map[string]any) map[string]any {
		out := map[string]any{"file_id": id, "file_unique_id": "u", "file_size": 9}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	for _, c := range []struct {
		name       string
		more       telegramtest.Fields
		text, kind string
		file       string
	}{
		{"photo", telegramtest.Fields{"photo": []any{map[string]any{"file_id": "small", "width": 90, "height": 90}, file(map[string]any{"width": 800, "height": 600})}, "caption": "look"}, "look", "image/jpeg", "photo.jpg"},
		{"document", telegramtest.Fields{"document": file(map[string]any{"file_name": "a.pdf", "mime_type": "application/pdf"})}, "", "application/pdf", "a.pdf"},
		{"voice", telegramtest.Fields{"voice": file(map[string]any{"duration": 3, "mime_type": "audio/ogg"})}, "", "audio/ogg", "voice.ogg"},
		{"audio", telegramtest.Fields{"audio": file(map[string]any{"file_name": "a.mp3", "mime_type": "audio/mpeg"})}, "", "audio/mpeg", "a.mp3"},
		{"video", telegramtest.Fields{"video": file(map[string]any{"width": 8, "height": 8})}, "", "video/mp4", "video.mp4"},
		{"video note", telegramtest.Fields{"video_note": file(map[string]any{"length": 8})}, "", "video/mp4", "video.mp4"},
		{"sticker", telegramtest.Fields{"sticker": file(map[string]any{"type": "regular", "emoji": "😀"})}, "😀", "image/webp", "sticker.webp"},
		{"animated sticker", telegramtest.Fields{"sticker": file(map[string]any{"type": "regular", "is_animated": true})}, "", "application/x-tgsticker", "sticker.tgs"},
		{"animation with its document", telegramtest.Fields{"animation": file(map[string]any{"file_name": "a.mp4"}), "document": file(nil)}, "", "video/mp4", "a.mp4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			chat.SayAs(chat.Ann, "", c.more)
			e := next(h)
			if len(e.Attachments) != 1 || e.Text != c.text {
				t.Fatalf("got %q with %+v", e.Text, e.Attachments)
			}
			if a := e.Attachments[0]; a.Handle != id || a.Type != c.kind || a.Name != c.file || a.Size != 9 {
				t.Errorf("got %+v", a)
			}
			content, err := h.Fetch(e.Attachments[0].Handle)
			if err != nil || string(content) != "the bytes" {
				t.Errorf("%q, %v", content, err)
			}
		})
	}
	for text, more := range map[string]telegramtest.Fields{
		"[location: 52.520000 13.405000]": {"location": map[string]any{"latitude": 52.52, "longitude": 13.405}},
		"[contact: Bob, +49 1]":           {"contact": map[string]any{"first_name": "Bob", "phone_number": "+49 1"}},
		"[🎲: 5]":                          {"dice": map[string]any{"emoji": "🎲", "value": 5}},
	} {
		chat.SayAs(chat.Ann, "", more)
		if e := next(h); e.Text != text {
			t.Errorf("got %q, want %q", e.Text, text)
		}
	}
	chat.SayAs(chat.Ann, "", telegramtest.Fields{"new_chat_title": "says nothing"})
	s.AwaitConfirmed()
}

func TestFetchThatFails(t *testing.T) {
	s := telegramtest.Start(t)
	h := ready(t, s)
	gone := s.AddFile("gone.bin", []byte("x"), 0)
	s.Fail("download", telegramtest.Fault{Code: 404, Description: "Not Found"})
	for _, c := range []struct{ name, handle, words string }{
		{"too large", s.AddFile("big.bin", nil, 21<<20), "at most 20 MB"},
		{"unknown", "nothing", "invalid file_id"},
		{"gone", gone, "404"},
	} {
		_, err := h.Fetch(c.handle)
		if err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), telegramtest.Token) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// startPlugin is start with the plugin at hand.
func startPlugin(t *testing.T, s *telegramtest.Server) (*plugin, *plugintest.Host) {
	t.Helper()
	p := &plugin{}
	h := plugintest.Start(t, p, plugintest.Config{
		Settings: map[string]any{"api_url": s.URL}, Secrets: map[string]string{"token": telegramtest.Token},
		Permissions: []string{"media"},
	})
	h.WaitStatus(channel.StateReady)
	return p, h
}

// picture is a PNG of a size.
func picture(t *testing.T, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// uploaded is an attachment of a file.
func uploaded(t *testing.T, p *plugin, name, kind string, content []byte) channel.Attachment {
	t.Helper()
	handle, err := p.Upload(t.Context(), channel.Media{Name: name, Type: kind, Size: int64(len(content)), Body: io.NopCloser(bytes.NewReader(content))})
	if err != nil {
		t.Fatal(err)
	}
	return channel.Attachment{Handle: handle, Name: name, Type: kind, Size: int64(len(content))}
}

func TestMediaOut(t *testing.T) {
	s := telegramtest.Start(t)
	p, h := startPlugin(t, s)
	chat := s.Private("Ann")
	good, odd := picture(t, 20, 20), picture(t, 2100, 100)
	large := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	photo, text := uploaded(t, p, "a.png", "image/png", good), uploaded(t, p, "notes.txt", "text/plain", []byte("notes"))
	for _, c := range []struct {
		name  string
		text  string
		files []channel.Attachment
		shows string
	}{
		{"photo with a caption", "**look**", []channel.Attachment{photo}, `photo "look" a.png`},
		{"document", "", []channel.Attachment{text}, `document "" notes.txt`},
		{"both", "two", []channel.Attachment{photo, text}, `photo "two" a.png, document "" notes.txt`},
		{"long text", strings.Repeat("x", 1025), []channel.Attachment{photo}, ` "xxxx…" , photo "" a.png`},
		{"picture that is no photo", "odd", []channel.Attachment{uploaded(t, p, "odd.png", "image/png", odd)}, `document "odd" odd.png`},
		{"not the type it says", "", []channel.Attachment{uploaded(t, p, "x.jpg", "image/jpeg", []byte("no picture"))}, `document "" x.jpg`},
		{"large file with a strange name", "", []channel.Attachment{uploaded(t, p, "../\"a\n.bin", "", large)}, `document "" _a_.bin`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(chat.Messages())
			sent, err := h.Send(channel.Send{Conversation: dm(chat), Text: c.text, Markdown: true, Attachments: c.files})
			if err != nil {
				t.Fatal(err)
			}
			var shows []string
			for _, m := range chat.Messages()[before:] {
				if len(m.Text) > 1000 {
					m.Text = m.Text[:4] + "…"
				}
				shows = append(shows, fmt.Sprintf("%s %q %s", m.Media, m.Text, m.Upload.Name))
			}
			if got := strings.Join(shows, ", "); got != c.shows || len(sent.MessageIDs) != len(shows) {
				t.Errorf("shows %s", got)
			}
		})
	}
	list := chat.Messages()
	if got := list[len(list)-1].Upload.Content; !bytes.Equal(got, large) {
		t.Errorf("%d bytes of %d arrived", len(got), len(large))
	}
}

func TestMediaThatIsNotThere(t *testing.T) {
	s := telegramtest.Start(t)
	_, h := startPlugin(t, s)
	chat := s.Private("Ann")
	for _, handle := range []string{"../../etc/passwd", strings.Repeat("0", 64)} {
		sent, err := h.Send(channel.Send{Conversation: dm(chat), Attachments: []channel.Attachment{{Handle: handle}}})
		if sent.Outcome != channel.OutcomeNotSent || err == nil || len(chat.Messages()) != 0 {
			t.Errorf("%s: %+v, %v", handle, sent, err)
		}
	}
}

func TestUploadsAreChecked(t *testing.T) {
	p, _ := startPlugin(t, telegramtest.Start(t))
	for name, m := range map[string]channel.Media{
		"too large":             {Size: maxFile + 1, Body: io.NopCloser(strings.NewReader(""))},
		"larger than announced": {Size: 1, Body: io.NopCloser(io.LimitReader(zeros{}, maxFile+1))},
	} {
		if _, err := p.Upload(t.Context(), m); err == nil || !strings.Contains(err.Error(), "bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// zeros is as many as anybody reads.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
