package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/config"
)

// Bounds on what a model's server says.
const (
	maxList   = 8 << 20          // bytes of a list of models
	maxOffset = 90 * time.Second // between this machine's clock and that of a server on the internet
)

// checkModels asks the server of each tier for its models. It asks no model for an answer, so it costs nothing.
func checkModels(ctx context.Context, in Input) (out []Finding) {
	var wait sync.WaitGroup
	var mu sync.Mutex
	for _, tier := range slices.Sorted(maps.Keys(in.Config.Models)) {
		wait.Go(func() {
			found := checkModel(ctx, in.Config, tier)
			mu.Lock()
			defer mu.Unlock()
			out = append(out, found...)
		})
	}
	wait.Wait()
	return onceByCode(out, ClockOff)
}

// onceByCode keeps one finding of a code: the clock is one, whatever the number of servers that tell its time.
func onceByCode(all []Finding, code Code) (out []Finding) {
	for _, f := range all {
		if f.Code != code || !slices.ContainsFunc(out, func(o Finding) bool { return o.Code == code }) {
			out = append(out, f)
		}
	}
	return out
}

// listRequest returns the request for the models of a tier's server; nil for a provider without a server.
func listRequest(ctx context.Context, m config.Model) (*http.Request, error) {
	base, path := "https://api.openai.com/v1/", "models"
	switch m.Provider {
	case "anthropic":
		base, path = "https://api.anthropic.com/", "v1/models"
	case "openai":
	default:
		return nil, nil
	}
	address, err := url.JoinPath(cmp.Or(m.BaseURL, base), path)
	if err != nil {
		return nil, err
	}
	if m.Provider == "anthropic" {
		address += "?limit=1000"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	switch {
	case m.APIKey == "":
	case m.Provider == "anthropic":
		req.Header.Set("X-Api-Key", m.APIKey.Reveal())
	default:
		req.Header.Set("Authorization", "Bearer "+m.APIKey.Reveal())
	}
	if m.Provider == "anthropic" {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	return req, nil
}

func checkModel(ctx context.Context, c *config.Config, tier string) []Finding {
	m := c.Models[tier]
	req, err := listRequest(ctx, m)
	if err != nil {
		return []Finding{find(ModelUnreachable, "correct base_url", "tier %s: %v", tier, err).at(c, "models", tier, "base_url")}
	}
	if req == nil {
		return nil
	}
	client := http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the key goes nowhere else
	}
	defer client.CloseIdleConnections()
	asked := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return []Finding{find(ModelUnreachable, "check base_url and the network; a local server has to run",
			"tier %s: %s does not answer: %v", tier, req.URL.Host, err).at(c, "models", tier)}
	}
	defer resp.Body.Close()
	out := clock(resp.Header.Get("Date"), asked, time.Now(), req.URL.Host)
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		out = append(out, find(ModelKeyRefused, "put a valid key into "+keySource(m), "tier %s: %s refuses the key (%s)", tier, req.URL.Host, resp.Status).at(c, "models", tier))
	case resp.StatusCode >= http.StatusInternalServerError:
		out = append(out, find(ModelUnreachable, "try again later, or add fallbacks", "tier %s: %s answers %s", tier, req.URL.Host, resp.Status).at(c, "models", tier))
	case resp.StatusCode == http.StatusOK:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxList))
		out = append(out, checkListed(c, tier, body)...)
	}
	return out
}

func keySource(m config.Model) string {
	switch {
	case m.APIKeyEnv != "":
		return "the environment variable " + m.APIKeyEnv
	case m.APIKeyFile != "":
		return m.APIKeyFile
	}
	return "a file or variable, and name it with api_key_file or api_key_env"
}

// listed is an entry of a list of models. The window has several names among servers.
type listed struct {
	ID      string `json:"id"`
	Context any    `json:"context_length"`
	Window  any    `json:"context_window"`
	Max     any    `json:"max_model_len"`
	Input   any    `json:"max_input_tokens"`
}

func (l listed) window() int {
	for _, v := range []any{l.Context, l.Window, l.Max, l.Input} {
		if n, ok := v.(float64); ok && n >= 1 && n < 1e9 {
			return int(n)
		}
	}
	return 0
}

// checkListed compares a tier with its server's list. A server that lists nothing is believed to have the model.
func checkListed(c *config.Config, tier string, body []byte) []Finding {
	var list struct {
		Data []listed `json:"data"`
	}
	m := c.Models[tier]
	if json.Unmarshal(body, &list) != nil || len(list.Data) == 0 || m.Model == "" {
		return nil
	}
	var names []string
	for _, l := range list.Data {
		if same(l.ID, m.Model) {
			if w := l.window(); w > 0 && m.ContextWindow > w {
				return []Finding{find(ModelWindow, fmt.Sprintf("set context_window = %d", w),
					"tier %s: context_window is %d, and the provider says %d", tier, m.ContextWindow, w).at(c, "models", tier, "context_window")}
			}
			return nil
		}
		names = append(names, l.ID)
	}
	mend := "write a name that the provider lists"
	if near := config.Nearest(m.Model, names); near != "" {
		mend = fmt.Sprintf("write model = %q", near)
	}
	return []Finding{find(ModelUnknown, mend, "tier %s: the provider does not list the model %q", tier, m.Model).at(c, "models", tier, "model")}
}

// same reports whether a listed id is the model that was meant: Ollama lists names with their tag, Anthropic aliases with their date.
func same(id, name string) bool {
	return id == name || id == name+":latest" || strings.HasPrefix(id, strings.TrimSuffix(name, "-latest")+"-20")
}

// clock compares this machine's clock with the Date of an answer.
func clock(date string, asked, answered time.Time, host string) []Finding {
	t, err := http.ParseTime(date)
	if err != nil {
		return nil
	}
	off := asked.Sub(t)
	if t.After(asked) {
		off = answered.Sub(t) // the answer was made between the two
	}
	if off.Abs() <= maxOffset {
		return nil
	}
	return []Finding{find(ClockOff, "timedatectl set-ntp true", "this machine's clock is %v off that of %s", off.Abs().Round(time.Second), host)}
}
