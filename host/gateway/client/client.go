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
	r, err := remoteOf(c)
	if err == nil {
		err = r.Send(ctx, method, path, kind, content, answer)
	}
	return notRunning(err)
}

// Open returns the running host's answer to a GET as it comes, however long it is and takes. The caller closes it.
func Open(ctx context.Context, c *config.Config, path string) (io.ReadCloser, error) {
	r, err := remoteOf(c)
	if err != nil {
		return nil, notRunning(err)
	}
	resp, err := r.do(ctx, http.MethodGet, path, "application/json", nil)
	if err != nil {
		return nil, notRunning(err)
	}
	return resp.Body, nil
}

func remoteOf(c *config.Config) (Remote, error) {
	token, err := gateway.ReadToken(c.Gateway.TokenFile)
	return Remote{URL: "http://" + c.Gateway.Listen, Token: token}, err
}

// notRunning returns ErrNotRunning for the errors that say so: the first start creates the token file.
func notRunning(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
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
