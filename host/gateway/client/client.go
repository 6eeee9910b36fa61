// Package client asks the running host over its gateway, as the commands of the command line do.
//
// Start with Ask. The address and the file with the token come from the configuration, and the size of an answer is bounded.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/jsonform"
)

// ErrNotRunning is returned if no host is running.
var ErrNotRunning = errors.New("no flynn is running")

const (
	askTimeout = 30 * time.Second
	maxAnswer  = 16 << 20 // bytes
)

// Ask sends a request with a JSON body to the running host and decodes its answer; a nil body is a GET.
func Ask(ctx context.Context, c *config.Config, path string, body, answer any) error {
	if body == nil {
		return Send(ctx, c, http.MethodGet, path, "application/json", nil, answer)
	}
	content, err := jsonform.Marshal(body)
	if err != nil {
		return err
	}
	return Send(ctx, c, http.MethodPost, path, "application/json", bytes.NewReader(content), answer)
}

// Send sends a request to the running host and decodes its answer.
func Send(ctx context.Context, c *config.Config, method, path, kind string, content io.Reader, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.Gateway.Listen+path, content)
	if err != nil {
		return err
	}
	token, err := gateway.ReadToken(c.Gateway.TokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotRunning // the first start creates it
	}
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", kind)
	client := http.Client{Transport: &http.Transport{}} // no proxy: the host is on this machine
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return ErrNotRunning
	}
	if err != nil {
		return fmt.Errorf("ask the running flynn: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("ask the running flynn: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(resp.Status, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("read the running flynn's answer: %w", err)
	}
	return nil
}

// refusal is the running host's error, with its message if it has one.
func refusal(status string, text []byte) error {
	var f gateway.ServerFrame
	if json.Unmarshal(text, &f) != nil || f.Message == "" {
		return fmt.Errorf("the running flynn answers %s", status)
	}
	return errors.New(strings.TrimSpace(f.Message))
}
