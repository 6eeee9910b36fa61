package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/agent/transcript"
	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool"
)

// TestWindowIsInTokens fills a small window: the latest whole turns are shown, and the request stays within it as counted.
func TestWindowIsInTokens(t *testing.T) {
	h := newHouse(t, openStore(t), nil)
	var sizes []int
	h.gen.Models = script(func(_ context.Context, req model.Request) (model.Response, error) {
		sizes = append(sizes, model.Rough(req))
		return say(fmt.Sprint(len(req.Messages))), nil
	})
	h.gen.Agents["helper"].Window = 500
	for range 12 {
		h.accept("ann", strings.Repeat("word ", 64)) // about 80 tokens
		h.work(t.Context())
	}
	got := h.texts()
	if got[0] != "1" || got[1] != "3" || got[11] != got[10] || slices.Max(sizes) > 500 || sizes[11] < 350 {
		t.Errorf("messages shown: %v, sizes %v", got, sizes)
	}
}

func TestRoom(t *testing.T) {
	for name, c := range map[string]struct{ window, scale, want int }{
		"as guessed":      {1000, 1, 1000},
		"counts double":   {1000, 2, 500},
		"nothing is left": {0, 1, 0},
	} {
		one := &modelVoice{identity: &identity{agent: &Agent{Window: c.window}, gen: &Generation{Models: scaledBy{c.scale}}}}
		req := model.Request{System: strings.Repeat("a b ", 100)}
		own := c.scale * model.Rough(req)
		if got := one.room(req); got != max((c.window-own)/c.scale, 0) {
			t.Errorf("%s: room is %d", name, got)
		}
	}
}

// scaledBy is a Models that counts so many tokens for each that is guessed.
type scaledBy struct{ scale int }

func (c scaledBy) Count(_ string, req model.Request) int { return c.scale * model.Rough(req) }

func (scaledBy) Stream(context.Context, string, model.Request, func(model.Delta)) (model.Response, error) {
	return model.Response{}, errors.New("not called")
}

// TestTooLongIsTriedOnceMore wants the older half of the conversation left out when the provider finds it too long, once.
func TestTooLongIsTriedOnceMore(t *testing.T) {
	for name, c := range map[string]struct {
		limit int // messages that the provider takes
		want  []int
		reply string
	}{
		"half fits":       {11, []int{17, 9}, "fine"},
		"nothing fits":    {0, []int{17, 9}, "I could not answer this: this conversation has grown too long for the model."},
		"whole fits":      {100, []int{17}, "fine"},
		"the turn itself": {-1, []int{1}, "I could not answer this: this conversation has grown too long for the model."},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, openStore(t), nil)
			if c.limit >= 0 {
				for range 8 {
					h.accept("ann", "some words of equal length")
					h.work(t.Context())
				}
			}
			var asked []int
			h.gen.Models = script(func(_ context.Context, req model.Request) (model.Response, error) {
				if asked = append(asked, len(req.Messages)); len(req.Messages) > c.limit {
					return model.Response{}, &model.Error{Kind: model.TooLong, Err: errors.New("too long")}
				}
				return say("fine"), nil
			})
			h.accept("ann", "and now?")
			h.work(t.Context())
			texts := h.texts()
			if !slices.Equal(asked, c.want) || texts[len(texts)-1] != c.reply {
				t.Errorf("messages shown: %v, reply %q", asked, texts[len(texts)-1])
			}
		})
	}
}

var picture = []byte("\x89PNG\r\n\x1a\n of a cat")

// TestImagesReachTheModel follows an image from a message and one from a tool to a model that takes images, and to one that does not.
func TestImagesReachTheModel(t *testing.T) {
	for name, takes := range map[string]bool{"images": true, "no images": false} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			var seen []string
			p := &charging{answer: func(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
				line := ""
				for _, m := range req.Messages {
					line += strings.Repeat("i", len(m.Images))
					for _, r := range m.Results {
						line += strings.Repeat("r", len(r.Images))
					}
					for _, img := range m.Images {
						if string(img.Data) != string(picture) || img.Type != "image/png" {
							t.Errorf("an image is %+v", img)
						}
					}
				}
				if seen = append(seen, line); len(req.Messages[len(req.Messages)-1].Results) > 0 {
					return say("a cat"), nil
				}
				return callTool("c1", "thing.touch", `{"what":"cat"}`), nil
			}}
			set, err := model.NewSet(map[string]config.Model{"default": {Provider: "fake", Images: takes}},
				model.Options{Providers: map[string]model.Constructor{"fake": func(config.Model) (model.Provider, error) { return p, nil }}})
			if err != nil {
				t.Fatal(err)
			}
			begin := func() *house {
				h := newHouse(t, s, nil)
				h.gen.Models = set
				h.runner.cfg.Tools = photographer{}
				h.on.image = func(digest string) ([]byte, error) {
					return map[string][]byte{"cat": picture, "text": []byte("no image")}[digest], nil
				}
				h.on.files = func(message.WorkspaceKey, message.Message) []message.File {
					return []message.File{
						{Name: "a.png", Type: "image/png", Digest: "cat", Path: "a.png"}, {Name: "b.png", Type: "image/png", Digest: "text", Path: "b.png"},
						{Name: "c.pdf", Type: "application/pdf", Digest: "cat", Path: "c.pdf"}, {Name: "d.png", Type: "image/png", Why: "too large"},
					}
				}
				return h
			}
			h := begin()
			_, _, err = h.store.AppendInbox(t.Context(), message.Message{
				Channel: "irc", EventID: store.NewID(time.Now()), Text: "look", Sender: message.Sender{ID: "ann"},
				Conversation: message.Conversation{ID: "ann", Kind: message.DM}, Attachments: []message.Attachment{{Handle: "h", Name: "a.png"}},
			}, mailbox.InboxNew, "")
			if err != nil {
				t.Fatal(err)
			}
			h.work(t.Context())
			h = begin() // another process still knows
			h.on.files = nil
			h.accept("ann", "and again?")
			h.work(t.Context())
			want := []string{"i", "ir", "ir", "irr"}
			if !takes {
				want = []string{"", "", "", ""}
			}
			if !slices.Equal(seen, want) {
				t.Errorf("the model was shown %q, want %q", seen, want)
			}
			turns, err := h.store.History(t.Context(), "irc", "ann", 1)
			if err != nil {
				t.Fatal(err)
			}
			steps, err := h.store.Steps(t.Context(), turns[0].ID)
			if err != nil || strings.Contains(string(steps[1].Data), "of a cat") {
				t.Errorf("steps: %v, %v", steps, err)
			}
			if decoded, err := transcript.Read(steps); err != nil || !slices.Equal(decoded.Images(), []string{"cat"}) {
				t.Errorf("the turn shows %v, %v", decoded.Images(), err)
			}
		})
	}
}

// photographer runs every call by giving an image.
type photographer struct{}

func (photographer) Run(context.Context, tool.Decision, tool.Call) tool.Result {
	return tool.Result{Text: "click", Media: []tool.Media{{SHA256: "cat", Type: "image/png; x=y"}, {SHA256: "cat", Type: "video/mp4"}}}
}

func TestOlderImagesFallOutFirst(t *testing.T) {
	img := func(d string) model.Image { return model.Image{Digest: d} }
	list := func() []model.Message {
		return []model.Message{
			{Role: model.User, Images: []model.Image{img("a"), img("b")}},
			{Role: model.User, Results: []model.ToolResult{{Images: []model.Image{img("c")}}, {Images: []model.Image{img("d")}}}},
			{Role: model.User, Images: []model.Image{img("e")}},
		}
	}
	for room, want := range map[int]string{-1: "", 0: "", 1: "e", 2: "ed", 3: "edc", 4: "edcb", 9: "edcba"} {
		before := list()
		got := ""
		for _, m := range slices.Backward(latestImages(slices.Clone(before), room)) {
			for _, r := range slices.Backward(m.Results) {
				for _, i := range slices.Backward(r.Images) {
					got += i.Digest
				}
			}
			for _, i := range slices.Backward(m.Images) {
				got += i.Digest
			}
		}
		if got != want || len(before[1].Results[0].Images) != 1 {
			t.Errorf("room for %d leaves %q, want %q", room, got, want)
		}
	}
}
