package providers_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/modeltest"
)

// The beginnings of images, which is all that tells their type.
var (
	png  = []byte("\x89PNG\r\n\x1a\n and so on")
	webp = []byte("RIFF\x00\x00\x00\x00WEBPVP8 ")
)

func TestImages(t *testing.T) {
	withText := model.Message{Role: model.User, Text: "what is this?", Images: []model.Image{{Digest: "d", Type: "image/png", Data: png}}}
	alone := model.Message{Role: model.User, Images: []model.Image{{Type: "image/webp", Data: webp}}}
	call := model.Message{Role: model.Assistant, Calls: []model.ToolCall{{ID: "a", Name: "shell.exec"}, {ID: "b", Name: "shell.exec"}}}
	results := model.Message{Role: model.User, Results: []model.ToolResult{
		{ID: "a", Text: "a screenshot", Images: []model.Image{{Type: "image/png", Data: png}}}, {ID: "b", Images: []model.Image{{Type: "image/webp", Data: webp}}},
	}}
	forEach(t, func(t *testing.T, vendor string) {
		server := modeltest.New(t)
		server.Script(modeltest.Reply{Text: "a cat"})
		resp, _, err := askServer(t, server, vendor, request(withText, say("a cat"), alone, call, results))
		if err != nil || resp.Message.Text != "a cat" {
			t.Fatalf("answer %+v, error %v", resp, err)
		}
		body := string(server.Requests()[0].Body)
		if strings.Count(body, "iVBORw0KGgo") != 2 || strings.Count(body, "UklGRgAAAABXRUJQ") != 2 || strings.Contains(body, `"digest"`) {
			t.Errorf("the request is %s", body)
		}
	})
}

// TestServersKnowImages makes sure that the fake servers would notice a wrong image.
func TestServersKnowImages(t *testing.T) {
	forEach(t, func(t *testing.T, vendor string) {
		for name, img := range map[string]model.Image{
			"another type": {Type: "image/jpeg", Data: png},
			"no image":     {Type: "image/png", Data: []byte("#!/bin/sh")},
			"no type":      {Type: "image/svg+xml", Data: png},
		} {
			_, _, err := ask(t, vendor, modeltest.Reply{Text: "fine"}, request(model.Message{Role: model.User, Images: []model.Image{img}}))
			var e *model.Error
			if !errors.As(err, &e) || e.Kind != model.BadRequest {
				t.Errorf("%s: error is %v", name, err)
			}
		}
	})
}

func say(text string) model.Message { return model.Message{Role: model.Assistant, Text: text} }
