package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Remote is a running host by the address of its gateway, such as http://127.0.0.1:7351, and its token.
type Remote struct {
	URL, Token string
}

// Get decodes the answer to a GET.
func (r Remote) Get(ctx context.Context, path string, answer any) error {
	return r.Send(ctx, http.MethodGet, path, "application/json", nil, answer)
}

// Send sends a request and decodes its answer. Its deadline is that of ctx, and at most askTimeout.
func (r Remote) Send(ctx context.Context, method, path, kind string, content io.Reader, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	resp, err := r.do(ctx, method, path, kind, content)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer == nil || resp.StatusCode == http.StatusNoContent {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("ask the running flynn: %w", err)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("read the running flynn's answer: %w", err)
	}
	return nil
}

// do sends a request. It returns the answer of a request that succeeded, whose body the caller closes.
func (r Remote) do(ctx context.Context, method, path, kind string, content io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(r.URL, "/")+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+r.Token)
	req.Header.Set("Content-Type", kind)
	// No proxy, as for every client of the gateway, and no connection that outlives the answer.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the running flynn: %w", err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("ask the running flynn: %w", err)
	}
	return nil, refusal(resp.Status, text)
}
