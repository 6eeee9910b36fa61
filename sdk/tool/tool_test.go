package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/flynnhost/flynn/sdk/plugintest"
	"github.com/flynnhost/flynn/sdk/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a provider made of functions.
type fake struct {
	tools func() ([]tool.Tool, error)
	call  func(ctx context.Context, c *tool.Call) (tool.Result, error)
}

func (f *fake) Describe() tool.Description                                  { return tool.Description{Name: "fake", Version: "1.0.0"} }
func (f *fake) Configure(context.Context, tool.Config) error                { return nil }
func (f *fake) Tools(context.Context) ([]tool.Tool, error)                  { return f.tools() }
func (f *fake) Call(ctx context.Context, c *tool.Call) (tool.Result, error) { return f.call(ctx, c) }

// runner is a fake that runs.
type runner struct {
	fake
	run func(ctx context.Context, b tool.Board) error
}

func (r *runner) Run(ctx context.Context, b tool.Board) error { return r.run(ctx, b) }

func calling(call func(ctx context.Context, c *tool.Call) (tool.Result, error)) *fake {
	return &fake{tools: func() ([]tool.Tool, error) { return nil, nil }, call: call}
}

func TestToolsArriveAsTheyAre(t *testing.T) {
	want := []tool.Tool{
		{Name: "look", Description: "looks", Schema: json.RawMessage(`{"type":"object"}`), Effect: tool.Read, Idempotent: true},
		{Name: "run", Schema: json.RawMessage(`{}`), Output: json.RawMessage(`{}`), Effect: tool.Execute, Timeout: 5e9},
	}
	h := plugintest.StartTools(t, &fake{tools: func() ([]tool.Tool, error) { return want, nil }}, plugintest.Config{})
	got := h.Tools()
	for i := range want {
		if i >= len(got) || fmt.Sprintf("%+v", got[i]) != fmt.Sprintf("%+v", want[i]) {
			t.Errorf("got %+v, want %+v", got, want[i])
		}
	}
}

func TestListThatIsTooLongIsCut(t *testing.T) {
	var many []tool.Tool
	for i := range 100 {
		many = append(many, tool.Tool{Name: fmt.Sprint("t", i), Schema: json.RawMessage(`{"a":"` + strings.Repeat("x", 60<<10) + `"}`)})
	}
	h := plugintest.StartTools(t, &fake{tools: func() ([]tool.Tool, error) { return many, nil }}, plugintest.Config{})
	if n := len(h.Tools()); n < 10 || n >= 100 {
		t.Errorf("%d tools came", n)
	}
}

func TestCallTellsHowItFares(t *testing.T) {
	h := plugintest.StartTools(t, calling(func(_ context.Context, c *tool.Call) (tool.Result, error) {
		var args struct{ N int }
		if err := c.Decode(&args); err != nil {
			return tool.Failed(err.Error()), nil
		}
		c.Progress(1, 2, "half")
		c.Log("info", "line\xff")
		fmt.Fprint(c, "out")
		return tool.Result{Text: fmt.Sprint(args.N), Structured: json.RawMessage(`{"n": 1}`)}, nil
	}), plugintest.Config{})
	out, err := h.Call("any", map[string]int{"n": 7})
	if err != nil || out.Text != "7" || string(out.Structured) != `{"n": 1}` || string(out.Output) != "out" {
		t.Errorf("got %+v, %v", out, err)
	}
	if !slices.Equal(out.Progress, []string{"1/2 half"}) || !slices.Equal(out.Log, []string{"info line\uFFFD"}) {
		t.Errorf("progress %q, log %q", out.Progress, out.Log)
	}
}

func TestResultsAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		result tool.Result
		want   string
	}{
		"long text":        {tool.Text(strings.Repeat("x", 2<<20)), "[cut: 2097152 bytes in all]"},
		"no UTF-8":         {tool.Text("a\xffb"), "a\uFFFDb"},
		"broken structure": {tool.Result{Structured: json.RawMessage(`{`)}, "it is not JSON"},
		"huge structure":   {tool.Result{Structured: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}, "1048578 bytes"},
		"media, no store":  {tool.Result{Media: []tool.Media{{Name: "a.png", Type: "image/png", Body: strings.NewReader("")}}}, "a.png of type image/png is left out"},
		"long text, media": {tool.Result{Text: strings.Repeat("x", 2<<20), Media: make([]tool.Media, 1)}, "is left out"},
	} {
		t.Run(name, func(t *testing.T) {
			h := plugintest.StartTools(t, calling(func(context.Context, *tool.Call) (tool.Result, error) { return c.result, nil }), plugintest.Config{})
			out, err := h.Call("any", nil)
			if err != nil || !strings.Contains(out.Text, c.want) {
				t.Errorf("got %.300q, %v; want %q in it", out.Text, err, c.want)
			}
		})
	}
}

func TestMediaGoesIntoTheStore(t *testing.T) {
	h := plugintest.StartTools(t, calling(func(context.Context, *tool.Call) (tool.Result, error) {
		var media []tool.Media
		for range 17 {
			media = append(media, tool.Media{Name: "a.png", Type: "image/png", Size: 3, Body: strings.NewReader("png")})
		}
		return tool.Result{Media: media}, nil
	}), plugintest.Config{Permissions: []string{"media"}})
	out, err := h.Call("any", nil)
	if err != nil || len(out.Media) != 16 || !strings.Contains(out.Text, "at most 16") {
		t.Fatalf("got %+v, %v", out, err)
	}
	if m, body, ok := h.Services().Media(out.Media[0]); !ok || string(body) != "png" || m.Type != "image/png" || m.Name != "a.png" {
		t.Errorf("stored: %+v %q, %v", m, body, ok)
	}
}

func TestProviderThatFails(t *testing.T) {
	h := plugintest.StartTools(t, &fake{
		tools: func() ([]tool.Tool, error) { return nil, errors.New("no list") },
		call:  func(context.Context, *tool.Call) (tool.Result, error) { return tool.Result{}, errors.New("no server") },
	}, plugintest.Config{})
	if _, err := h.Call("any", nil); err == nil || !strings.Contains(err.Error(), "no server") {
		t.Errorf("got %v", err)
	}
}

func TestCancelReachesTheTool(t *testing.T) {
	begun, ended := make(chan bool), make(chan error, 1)
	h := plugintest.StartTools(t, calling(func(ctx context.Context, c *tool.Call) (tool.Result, error) {
		close(begun)
		<-ctx.Done()
		c.Progress(1, 1, "nobody hears this")
		ended <- ctx.Err()
		return tool.Result{}, ctx.Err()
	}), plugintest.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := h.CallContext(ctx, "any", nil, nil); err == nil {
		t.Error("a cancelled call has a result")
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the tool saw %v", err)
	}
}

func TestWatchTellsChanges(t *testing.T) {
	change := make(chan bool)
	h := plugintest.StartTools(t, &runner{run: func(ctx context.Context, b tool.Board) error {
		b.Status(tool.StateReady, "here")
		for {
			select {
			case <-change:
				b.Changed()
			case <-ctx.Done():
				return nil
			}
		}
	}}, plugintest.Config{})
	if text := h.WaitStatus(tool.StateReady); text != "here" {
		t.Errorf("status %q", text)
	}
	revisions := h.Watch()
	first := <-revisions
	change <- true
	if second := <-revisions; second != first+1 {
		t.Errorf("revision %d after %d", second, first)
	}
	if err := h.Shutdown(); err != nil {
		t.Error(err)
	}
	if _, open := <-revisions; open {
		t.Error("the stream goes on after the end")
	}
}

func TestRunThatReturnsEndsThePlugin(t *testing.T) {
	h := plugintest.StartTools(t, &runner{run: func(context.Context, tool.Board) error { return errors.New("lost") }}, plugintest.Config{})
	if err := h.Wait(); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("it ended with %v", err)
	}
}

func TestEndWaitsForCalls(t *testing.T) {
	begun, finish := make(chan bool), make(chan bool)
	h := plugintest.StartTools(t, calling(func(context.Context, *tool.Call) (tool.Result, error) {
		close(begun)
		<-finish
		return tool.Text("done"), nil
	}), plugintest.Config{})
	result := make(chan string, 1)
	go func() {
		out, err := h.CallContext(t.Context(), "any", nil, nil)
		result <- fmt.Sprint(out.Text, err)
	}()
	<-begun
	down := make(chan error, 1)
	go func() { down <- h.Shutdown() }()
	close(finish)
	if got := <-result; got != "done<nil>" {
		t.Errorf("the call under way: %s", got)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}
