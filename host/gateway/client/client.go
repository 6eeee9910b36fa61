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

// Get decodes the running host's answer to a GET.
func Get(ctx context.Context, c *config.Config, path string, answer any) error {
	return Send(ctx, c, http.MethodGet, path, "application/json", nil, answer)
}

// Ask sends a request with a JSON body to the running host and decodes its answer. A nil body is none; a nil answer is not wanted.
func Ask(ctx context.Context, c *config.Config, method, path string, body, answer any) error {
	if body == nil {
		return Send(ctx, c, method, path, "application/json", nil, answer)
	}
	content, err := jsonform.Marshal(body)
	if err != nil {
		return err
	}
	return Send(ctx, c, method, path, "application/json", bytes.NewReader(content), answer)
}

// Send sends a request to the running host and decodes its answer.
func Send(ctx context.Context, c *config.Config, method, path, kind string, content io.Reader, answer any) error {
	token, err := gateway.ReadToken(c.Gateway.TokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotRunning // the first start creates it
	}
	if err != nil {
		return err
	}
	err = Remote{URL: "http://" + c.Gateway.Listen, Token: token}.Send(ctx, method, path, kind, content, answer)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return ErrNotRunning
	}
	return err
}

// refusal is the running host's error, with its message if it has one.
func refusal(status string, text []byte) error {
	var p gateway.Problem
	if json.Unmarshal(text, &p) != nil || p.Detail == "" {
		return fmt.Errorf("the running flynn answers %s", status)
	}
	p.Detail = strings.TrimSpace(p.Detail)
	return &p
}
