package main

import (
	"bytes"
	"context"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/pairing"
	"github.com/flynnhost/flynn/host/store/sqlite"
)

// leaveStrangers is the script command "strangers CONFIG SENDER...": each of them has asked to be let in. The first has the
// code AAAAAAAA, the second BBBBBBBB, and so on.
func leaveStrangers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: strangers CONFIG SENDER...")
	}
	c, err := config.Load(ts.MkAbs(args[0]), func(key string) string { return map[string]string{"HOME": ts.Getenv("HOME")}[key] })
	ts.Check(err)
	ctx := context.Background()
	s, err := sqlite.Open(ctx, c.Store.Dir)
	ts.Check(err)
	for i, sender := range args[1:] {
		channel, id, _ := strings.Cut(sender, ":")
		desk, err := pairing.Open(ctx, pairing.Config{Store: s, Rand: bytes.NewReader(bytes.Repeat([]byte{byte(i)}, 8))})
		ts.Check(err)
		_, _, err = desk.Offer(ctx, pairing.Stranger{Message: message.Message{
			Channel: channel, EventID: id, Sender: message.Sender{ID: id, Name: strings.ToUpper(id)}, Conversation: message.Conversation{ID: id, Kind: message.DM},
		}})
		ts.Check(err)
	}
	ts.Check(s.Close())
}
