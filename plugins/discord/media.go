package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bwmarrin/discordgo"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// maxFetch bounds an attachment that people send; Discord takes up to 500 MB from some.
const maxFetch = 512 << 20

// Fetch implements channel.Fetcher. The address of an attachment expires, so its message is read again for a new one.
func (p *plugin) Fetch(ctx context.Context, handle string) (channel.Media, error) {
	parts := strings.Split(handle, "/")
	if len(parts) != 3 || !isSnowflake(parts[0]) || !isSnowflake(parts[1]) || !isSnowflake(parts[2]) {
		return channel.Media{}, fmt.Errorf("%q is not the handle of an attachment", handle)
	}
	var m discordgo.Message
	if err := p.client.call(ctx, "GET", "/channels/"+parts[0]+"/messages/"+parts[1], nil, &m); err != nil {
		return channel.Media{}, fmt.Errorf("find attachment: %w", err)
	}
	for _, a := range m.Attachments {
		if a != nil && a.ID == parts[2] {
			return p.download(ctx, a)
		}
	}
	return channel.Media{}, errors.New("the message has lost its attachment")
}

func (p *plugin) download(ctx context.Context, a *discordgo.MessageAttachment) (channel.Media, error) {
	within := func(base string) bool { return strings.HasPrefix(a.URL, strings.TrimRight(base, "/")+"/") }
	if !slices.ContainsFunc(p.settings.CDN, within) {
		return channel.Media{}, errors.New("the attachment does not lie on one of the addresses under cdn")
	}
	answer, err := webapi.Get(ctx, p.client.http, a.URL, "")
	if err != nil {
		return channel.Media{}, fmt.Errorf("fetch attachment: %w", err)
	}
	body := channel.Bounded(answer.Body, maxFetch, nil)
	return channel.Media{Name: a.Filename, Type: a.ContentType, Size: max(answer.ContentLength, 0), Body: body}, nil
}
