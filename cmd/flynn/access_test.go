package main

import (
	"bytes"
	"context"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/flynnhost/flynn/host/access/pairing"
	"github.com/flynnhost/flynn/host/message"
)

// leaveStrangers is the script command "strangers CONFIG SENDER...": each of them has asked to be let in. The first has the
// code AAAAAAAA, the second BBBBBBBB, and so on.
func leaveStrangers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: strangers CONFIG SENDER...")
	}
	ctx, s := context.Background(), openStoreOf(ts, args[0])
	for i, sender := range args[1:] {
		channel, id, _ := strings.Cut(sender, ":")
		service, err := pairing.Open(ctx, pairing.Config{Store: s, Rand: bytes.NewReader(bytes.Repeat([]byte{byte(i)}, 8))})
		ts.Check(err)
		_, _, err = service.Offer(ctx, pairing.Stranger{Message: message.Message{
			Channel: channel, EventID: id, Sender: message.Sender{ID: id, Name: strings.ToUpper(id)}, Conversation: message.Conversation{ID: id, Kind: message.DM},
		}})
		ts.Check(err)
	}
	ts.Check(s.Close())
}
