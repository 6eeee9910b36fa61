package host

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/rest"
	"github.com/flynnhost/flynn/host/message"
)

// TestNobodySpeaksAsAnother: a person at the console writes as himself, and the token of the machine as its owner, whatever they ask for.
func TestNobodySpeaksAsAnother(t *testing.T) {
	c := newCallers(t)
	_, token, _ := strings.Cut(c.h.gateway.URL(), "#token=")
	bob, ann, zoe, holder := c.arrive("bob", ""), c.arrive("ann", ""), c.arrive("zoe", ""), c.arrive("holder", token)
	for _, of := range []person{bob, ann, zoe} {
		turns, err := c.h.store.History(t.Context(), message.ConsoleChannel, of.conversation, 10)
		if err != nil || len(turns) == 0 || turns[0].Sender != message.SenderKey("tg:"+of.name) {
			t.Errorf("%s speaks as %+v (%v)", of.name, turns, err)
		}
	}
	for _, v := range []struct {
		by            person
		channel, conv string
	}{
		{zoe, "web", "talk"}, {zoe, "terminal", "main"}, {zoe, "tg", "zoe"}, {zoe, "console", "talk"}, {zoe, "console", bob.conversation},
		{ann, "console", "tg:ann"}, {ann, "console", "~"}, {ann, "console", "tg:ann~x~y"}, {ann, "console", "tg:bob~x"}, {ann, "console", "tg:an~n"},
		{holder, "console", ann.conversation}, {holder, "console", "web:owner~x"}, {holder, "tg", "ann"}, {ann, "schedule", "x"},
	} {
		path := rest.Prefix + "/conversations/" + v.channel + "/" + url.PathEscape(v.conv) + "/messages"
		if status, text := c.ask(v.by.token, "", http.MethodPost, path, "application/json", `{"id":"other-`+v.by.name+`","text":"hello"}`); status != http.StatusForbidden {
			t.Errorf("%s writes to %s %s: %d %s", v.by.name, v.channel, v.conv, status, text)
		}
	}
	for _, v := range []struct {
		by      person
		channel string
	}{{zoe, "web"}, {ann, "terminal"}, {holder, "console"}} {
		if status, text := c.ask(v.by.token, "", http.MethodPost, rest.Prefix+"/files?name=a&channel="+v.channel, "application/octet-stream", "x"); status != http.StatusForbidden {
			t.Errorf("%s keeps a file for %s: %d %s", v.by.name, v.channel, status, text)
		}
	}
	var file gateway.File
	status, text := c.ask(ann.token, "", http.MethodPost, rest.Prefix+"/files?name=a.txt&channel=console", "application/octet-stream", "a file of ann's")
	if status != http.StatusOK || decode(text, &file) != nil {
		t.Fatal(status, text)
	}
	for _, by := range []person{ann, bob} {
		want := map[string]int{"ann": http.StatusAccepted, "bob": http.StatusBadRequest}[by.name]
		path := rest.Prefix + "/conversations/console/" + url.PathEscape(by.conversation) + "/messages"
		body := `{"id":"file-` + by.name + `","text":"look","files":["` + file.Handle + `"]}`
		if status, text := c.ask(by.token, "", http.MethodPost, path, "application/json", body); status != want {
			t.Errorf("%s sends the file of ann: %d %s, want %d", by.name, status, text, want)
		}
	}
}

// TestRightsEndAtOnce: a person who is revoked, signed out or raised is so in the next request, and in a socket that is open.
func TestRightsEndAtOnce(t *testing.T) {
	c := newCallers(t)
	owner := c.h.backend().Access
	status := func(p person) int {
		status, _ := c.ask(p.token, "", http.MethodGet, rest.Prefix+"/me", "", "")
		return status
	}
	watch := func(p person) (context.Context, *websocket.Conn) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		conn := c.dial(ctx, p.token, gateway.ChannelConsole, p.conversation)
		t.Cleanup(func() { conn.CloseNow() })
		for c.frame(ctx, conn).Type != gateway.TypeHistory {
		}
		return ctx, conn
	}
	closed := func(ctx context.Context, conn *websocket.Conn, code string) {
		t.Helper()
		last := gateway.ServerFrame{}
		for {
			_, data, err := conn.Read(ctx)
			if err != nil {
				break
			}
			if err := decode(string(data), &last); err != nil {
				t.Fatal(err)
			}
		}
		if ctx.Err() != nil || last.Code != code {
			t.Errorf("the socket ends with %+v (%v), want the error %q", last, ctx.Err(), code)
		}
	}
	bob := c.arrive("bob", "")
	ctx, conn := watch(bob)
	if err := owner.SetPairingRole(t.Context(), "tg:bob", "member", "web:owner"); err != nil {
		t.Fatal(err)
	}
	if me := c.me(bob.token); me.Role != "member" {
		t.Errorf("bob is %s after he was raised", me.Role)
	}
	closed(ctx, conn, "") // and comes again, as a member
	ctx, conn = watch(bob)
	if err := owner.RevokePairing(t.Context(), "tg:bob", "web:owner"); err != nil {
		t.Fatal(err)
	}
	if got := status(bob); got != http.StatusUnauthorized {
		t.Errorf("a revoked person is answered %d", got)
	}
	closed(ctx, conn, gateway.CodeUnauthorized)
	if list := c.h.signIns.List("tg:bob"); len(list) != 0 {
		t.Errorf("a revoked person is still signed in: another pairing would bring %+v back", list)
	}

	ann := c.arrive("ann", "")
	ctx, conn = watch(ann)
	code := c.link("ann")
	if err := c.h.signIns.EndAll(t.Context(), "tg:ann", "web:owner"); err != nil {
		t.Fatal(err)
	}
	if got := status(ann); got != http.StatusUnauthorized {
		t.Errorf("somebody who is signed out is answered %d", got)
	}
	closed(ctx, conn, gateway.CodeUnauthorized)
	if got, text := c.ask("", "", http.MethodPost, rest.Prefix+"/sign-in", "application/json", `{"code":"`+code+`"}`); got != http.StatusNotFound {
		t.Errorf("a link from before the end of all sign-ins: %d %s", got, text)
	}
}

// TestConsoleFollowsTheRulesOfTheChannel: what is said about a channel holds for its people at the console.
func TestConsoleFollowsTheRulesOfTheChannel(t *testing.T) {
	c := newCallers(t, "[routing.channels]\ntg = \"safe\"\n[agent_configs.safe]\ntool_profile = \"minimal\"\n")
	ann := c.arrive("ann", "")
	turns, err := c.h.store.History(t.Context(), message.ConsoleChannel, ann.conversation, 10)
	if err != nil || len(turns) != 1 || turns[0].Agent != "safe" {
		t.Errorf("answered by %+v (%v), want the agent of the channel", turns, err)
	}
}
