package host

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/flynnhost/flynn/host/model/modeltest"
)

// An image that a program sends by the official client reaches the agent's model, which also gets its name as that of a file.
func TestImageOfAProgram(t *testing.T) {
	api := modeltest.New(t)
	api.Script(modeltest.Reply{Text: "a dot"})
	t.Setenv("IMAGE_TEST_KEY", modeltest.Key)
	dir := t.TempDir()
	s := runCLI(t, dir, fmt.Sprintf(`
[store]
dir = %q
[gateway]
listen = "127.0.0.1:0"
[models.default]
provider = "openai"
model = "test"
base_url = %q
images = true
api_key_env = "IMAGE_TEST_KEY"
[routing]
default_agent = "main"
[agent_configs.main]
`, filepath.Join(dir, "s"), api.URL+"/v1"))
	at, err := url.Parse(s.host.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := openai.NewClient(option.WithBaseURL("http://"+at.Host+"/v1"), option.WithAPIKey(strings.TrimPrefix(at.Fragment, "token=")))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ask := func(image string) (*openai.ChatCompletion, error) {
		return client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "main", Messages: []openai.ChatCompletionMessageParamUnion{
			openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
				openai.TextContentPart("what is this?"), openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: image}),
			}),
		}})
	}
	dot := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n and so on"))
	answer, err := ask("data:image/png;base64," + dot)
	if err != nil || answer.Choices[0].Message.Content != "a dot" {
		t.Fatalf("answer %+v, %v", answer, err)
	}
	asked := api.Requests()
	if body := string(asked[0].Body); len(asked) != 1 || !strings.Contains(body, dot) || !strings.Contains(body, "attachments/image-1.png") {
		t.Errorf("the model was asked %d times: %s", len(asked), body)
	}
	if large, err := ask("data:image/png;base64," + dot[:4] + strings.Repeat("A", 4_000_000)); err == nil {
		t.Errorf("an image whose bytes are none is answered: %+v", large)
	}
	var refused *openai.Error
	if _, err := ask("http://" + at.Host + "/healthz"); !errors.As(err, &refused) || !strings.Contains(refused.Message, "data: URL") {
		t.Errorf("an address is answered with %v", err)
	}
	if len(api.Requests()) != 1 {
		t.Error("the model was asked about what was refused")
	}
}

// The official client finds the reason of a wrong token where it looks for one, and each streamed answer has an id of its own, by which
// flynn explain finds the turn.
func TestProgramsReadRefusalsAndIDs(t *testing.T) {
	s := demoHost(t, "")
	at, err := url.Parse(s.host.URL())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	with := func(token string) openai.Client {
		return openai.NewClient(option.WithBaseURL("http://"+at.Host+"/v1"), option.WithAPIKey(token), option.WithMaxRetries(0))
	}
	stranger := with("a token that nobody has")
	var refused *openai.Error
	if _, err := stranger.Models.List(ctx); !errors.As(err, &refused) || refused.StatusCode != 401 || !strings.Contains(refused.Message, "wrong token") {
		t.Errorf("a wrong token is answered with %v", err)
	}
	client, seen := with(strings.TrimPrefix(at.Fragment, "token=")), map[string]bool{}
	for range 2 {
		stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
			Model: "main", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
		})
		for stream.Next() {
			seen[stream.Current().ID] = true
		}
		if err := errors.Join(stream.Err(), stream.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 2 {
		t.Errorf("the ids of two answers are %v", seen)
	}
	for id := range seen {
		if steps, err := s.host.store.Steps(ctx, strings.TrimPrefix(id, "chatcmpl-")); err != nil || len(steps) == 0 {
			t.Errorf("%s names no turn (%v)", id, err)
		}
	}
}
