// Command guest is a channel plugin that uses everything that the host offers to plugins, for tests: its platform posts messages
// to a webhook.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/hostapi"
)

func main() { channel.Main(&guest{}) }

type guest struct {
	host   *hostapi.Host
	starts int
}

func (g *guest) Describe() channel.Description {
	return channel.Description{Name: "guest", Version: "1.0.0"}
}

func (g *guest) Configure(_ context.Context, c channel.Config) error {
	g.host = c.Host
	return nil
}

// Run counts the starts of the plugin in its values and serves its webhook.
func (g *guest) Run(ctx context.Context, in channel.Inbox) error {
	value, _, err := g.host.Get(ctx, "starts")
	if err != nil {
		return err
	}
	g.starts, _ = strconv.Atoi(string(value))
	g.starts++
	if err := g.host.Set(ctx, "starts", []byte(strconv.Itoa(g.starts))); err != nil {
		return err
	}
	ready := func(url string) { in.Status(channel.StateReady, fmt.Sprintf("start %d at %s", g.starts, url)) }
	return g.host.Webhook(ctx, "in/box", ready, g.platform(in))
}

// platform is the server that the platform calls: it posts messages and media, and requests.
func (g *guest) platform(in channel.Inbox) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		id := r.URL.Query().Get("id")
		switch {
		case err != nil:
		case id == "":
			err = g.keep(w, r, string(text))
		default:
			err = errors.Join(g.host.Count(r.Context(), "posts", 1), in.Deliver(r.Context(), channel.Event{
				ID: id, Text: string(text), Addressed: true,
				Conversation: channel.Conversation{ID: "c", Kind: channel.DM}, Sender: channel.Sender{ID: "ann"},
			}))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		last, _, err := g.host.Get(r.Context(), "last")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "start %d, sent %s", g.starts, last)
	})
	return mux
}

// keep puts media and answers with what comes back.
func (g *guest) keep(w http.ResponseWriter, r *http.Request, text string) error {
	digest, err := g.host.PutMedia(r.Context(), hostapi.Media{Name: "note.txt", Size: int64(len(text)), Body: strings.NewReader(text)})
	if err != nil {
		return err
	}
	m, err := g.host.OpenMedia(r.Context(), digest)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s %s %s ", digest, m.Name, m.Type)
	if err == nil {
		_, err = io.Copy(w, m.Body)
	}
	return err
}

// Send keeps what was sent last, for the platform to ask.
func (g *guest) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	if err := g.host.Set(ctx, "last", []byte(s.Text)); err != nil {
		return channel.Sent{Outcome: channel.OutcomeNotSent}, err
	}
	return channel.Sent{MessageIDs: []string{s.Key}}, nil
}
