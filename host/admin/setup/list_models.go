package setup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/config"
)

// Listing is what a server says about its models.
type Listing struct {
	Models []ListedModel
	// Date is the server's time, or zero if it does not tell it. Sent and Received are this machine's before and after the request.
	Date, Sent, Received time.Time
}

// ListedModel is one entry of a list.
type ListedModel struct {
	Name string
	// Window is its context window in tokens, 0 if the server does not tell it.
	Window int
}

// Bounds on what a server lists.
const (
	listTimeout  = 10 * time.Second
	maxListing   = 8 << 20 // bytes
	maxModels    = 5000
	maxNames     = 500 // to choose from
	maxModelName = 200 // bytes
	maxWindow    = 1 << 30
)

// ListModels asks a server for the names of its models; nil if it is none. Names that could not stand in flynn.toml are left out.
func ListModels(ctx context.Context, baseURL, key string) []string {
	l, err := List(ctx, config.Model{Provider: "openai", BaseURL: baseURL, APIKey: config.Secret(key)})
	if err != nil || l.Models == nil {
		return nil
	}
	names := []string{}
	for _, m := range l.Models[:min(len(l.Models), maxNames)] {
		names = append(names, m.Name)
	}
	return names
}

// ErrNoList is returned for a server that does not list its models.
var ErrNoList = errors.New("the server does not list its models")

// List asks the server of a model for its list, which costs nothing. With ErrNoList the times of the Listing are set.
func List(ctx context.Context, m config.Model) (Listing, error) {
	base, path := "https://api.openai.com/v1", "models"
	switch m.Provider {
	case "openai":
	case "anthropic":
		base, path = "https://api.anthropic.com", "v1/models?limit=1000"
	default:
		return Listing{}, ErrNoList
	}
	var list struct {
		Data []listed `json:"data"`
	}
	l, err := get(ctx, m, strings.TrimRight(cmp.Or(m.BaseURL, base), "/")+"/"+path, &list)
	if err == nil && list.Data == nil {
		err = ErrNoList
	}
	for _, e := range list.Data {
		if nameable(e.ID) && len(l.Models) < maxModels {
			l.Models = append(l.Models, ListedModel{e.ID, e.window()})
		}
	}
	if err == nil && l.Models == nil {
		l.Models = []ListedModel{}
	}
	return l, err
}

// LoadedWindow asks an Ollama for the context window with which it has loaded a model; 0 if it has not, or is another server. Ollama's list
// does not have it, and cuts off what is longer without an error.
func LoadedWindow(ctx context.Context, m config.Model) int {
	u, err := url.Parse(m.BaseURL)
	if err != nil || m.Provider != "openai" || m.BaseURL == "" {
		return 0
	}
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1") + "/api/ps"
	var loaded struct {
		Models []struct {
			Name    string `json:"name"`
			Context any    `json:"context_length"`
		} `json:"models"`
	}
	if _, err := get(ctx, m, u.String(), &loaded); err != nil {
		return 0
	}
	for _, e := range loaded.Models {
		if SameModel(e.Name, m.Model) {
			return tokens(e.Context)
		}
	}
	return 0
}

// SameModel reports whether the name in a list is the model that a configuration means: Ollama lists names with their tag, Anthropic aliases
// with their date.
func SameModel(listed, name string) bool {
	return listed == name || listed == name+":latest" || listed == "models/"+name ||
		strings.HasPrefix(listed, strings.TrimSuffix(name, "-latest")+"-20")
}

// get sends a request with the model's key to its own server, and decodes the answer.
func get(ctx context.Context, m config.Model, address string, answer any) (l Listing, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return l, err
	}
	if m.Provider == "anthropic" {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	switch {
	case m.APIKey == "":
	case m.Provider == "anthropic":
		req.Header.Set("X-Api-Key", m.APIKey.Reveal())
	default:
		req.Header.Set("Authorization", "Bearer "+m.APIKey.Reveal())
	}
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}, CheckRedirect: noRedirect}
	defer client.CloseIdleConnections()
	l.Sent = time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return l, err
	}
	defer resp.Body.Close()
	l.Received = time.Now()
	l.Date, _ = http.ParseTime(resp.Header.Get("Date"))
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxListing))
	switch {
	case err != nil:
		return l, err
	case resp.StatusCode != http.StatusOK:
		return l, fmt.Errorf("%w: %s", ErrNoList, resp.Status)
	case json.Unmarshal(text, answer) != nil:
		return l, ErrNoList
	}
	return l, nil
}

// noRedirect keeps a server from sending the key elsewhere.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// listed is an entry of a list of models. Servers have several names for the window.
type listed struct {
	ID      string `json:"id"`
	Context any    `json:"context_length"`     // OpenRouter, Together
	Window  any    `json:"context_window"`     // Groq
	Max     any    `json:"max_model_len"`      // vLLM
	Longest any    `json:"max_context_length"` // Mistral
	Input   any    `json:"max_input_tokens"`   // Anthropic
}

func (l listed) window() int {
	for _, v := range []any{l.Context, l.Window, l.Max, l.Longest, l.Input} {
		if n := tokens(v); n > 0 {
			return n
		}
	}
	return 0
}

func tokens(v any) int {
	if n, ok := v.(float64); ok && n >= 1 && n < maxWindow {
		return int(n)
	}
	return 0
}

func nameable(name string) bool {
	return name != "" && len(name) <= maxModelName && !strings.ContainsFunc(name, unprintable)
}
