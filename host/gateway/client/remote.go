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
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(r.URL, "/")+path, content)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.Token)
	req.Header.Set("Content-Type", kind)
	client := http.Client{Transport: &http.Transport{}} // no proxy, as for every client of the gateway
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the running flynn: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("ask the running flynn: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return refusal(resp.Status, text)
	}
	if answer == nil || resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("read the running flynn's answer: %w", err)
	}
	return nil
}
