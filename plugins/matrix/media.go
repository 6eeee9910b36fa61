package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// maxMedia bounds media in both directions, in bytes.
const maxMedia = 50 << 20

// Fetch implements channel.Fetcher; a handle is an mxc address.
func (p *plugin) Fetch(ctx context.Context, handle string) (channel.Media, error) {
	server, id, ok := mxc(handle)
	if !ok {
		return channel.Media{}, errors.New("the handle is not an mxc address")
	}
	r, err := p.client.request(ctx, http.MethodGet, "/_matrix/client/v1/media/download/"+url.PathEscape(server)+"/"+url.PathEscape(id), nil, nil)
	if err != nil {
		return channel.Media{}, err
	}
	answer, err := webapi.Do(p.client.http, r)
	if err == nil && answer.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
		answer.Body.Close()
		err = readError(answer, text)
	}
	if err != nil {
		return channel.Media{}, final(fmt.Errorf("fetch media: %w", err))
	}
	if answer.ContentLength > maxMedia {
		answer.Body.Close()
		return channel.Media{}, fmt.Errorf("media have %d bytes, at most %d are fetched", answer.ContentLength, maxMedia)
	}
	return channel.Media{Type: answer.Header.Get("Content-Type"), Size: max(answer.ContentLength, 0), Body: channel.Bounded(answer.Body, maxMedia, nil)}, nil
}

// Upload implements channel.Uploader.
func (p *plugin) Upload(ctx context.Context, m channel.Media) (string, error) {
	query := url.Values{}
	if m.Name != "" {
		query.Set("filename", m.Name)
	}
	var out struct {
		URI string `json:"content_uri"`
	}
	kind := cmp.Or(m.Type, "application/octet-stream")
	if err := p.client.do(ctx, http.MethodPost, "/_matrix/media/v3/upload", query, kind, m.Body, &out); err != nil {
		return "", final(fmt.Errorf("upload media: %w", err))
	}
	if _, _, ok := mxc(out.URI); !ok {
		return "", errors.New("upload media: the homeserver answers without an mxc address")
	}
	return out.URI, nil
}

// reaction is the key of a reaction.
func reaction(e event) string {
	var c content
	if json.Unmarshal(e.Content, &c) != nil {
		return ""
	}
	return c.Relation.Key
}
