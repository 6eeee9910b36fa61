package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
)

func TestAccessOverHTTP(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	d.backend.Knock(gateway.AccessEntry{Sender: "irc:eve", State: "open", Code: "ABCD-EFGH"})
	d.backend.Knock(gateway.AccessEntry{Sender: "irc:bob", State: "open", Code: "JKLM-NPQR"})
	auth := map[string]string{"Authorization": "Bearer TOKEN", "Content-Type": jsonType}
	for _, tt := range []struct {
		name, path, body string
		want             int
		says             string
	}{
		{"approve", "decide", `{"code":"ABCD-EFGH","approve":true}`, 200, `"state":"paired"`},
		{"deny", "decide", `{"code":"JKLM-NPQR","approve":false}`, 200, `"state":"denied"`},
		{"a wrong code", "decide", `{"code":"AAAA-AAAA","approve":true}`, 404, "not_found"},
		{"no answer", "decide", `{"code":"AAAA-AAAA"}`, 400, "approve"},
		{"no code", "decide", `{"approve":true}`, 400, "code"},
		{"a role with it", "decide", `{"code":"ABCD-EFGH","approve":true,"role":"owner"}`, 400, "role"},
		{"locked out", "decide", `{"code":"` + gatewaytest.LockOut + `","approve":true}`, 429, "too many wrong codes"},
		{"raise", "role", `{"sender":"irc:eve","role":"member"}`, 200, "member"},
		{"raise too far", "role", `{"sender":"irc:eve","role":"owner"}`, 400, "flynn.toml"},
		{"raise nobody", "role", `{"sender":"irc:zoe","role":"member"}`, 404, "not_found"},
		{"revoke", "revoke", `{"sender":"irc:eve"}`, 200, "revoked"},
		{"revoke again", "revoke", `{"sender":"irc:eve"}`, 404, "not_found"},
		{"revoke nobody", "revoke", `{}`, 400, "sender"},
		{"a huge sender", "revoke", `{"sender":"` + strings.Repeat("x", 2000) + `"}`, 400, "sender"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, _, body := d.ask(request{method: "POST", path: "/api/v1/access/" + tt.path, body: tt.body, header: auth})
			if status != tt.want || !strings.Contains(body, tt.says) {
				t.Errorf("answered %d %s, want %d with %q", status, body, tt.want, tt.says)
			}
			if status, _, _ := d.ask(request{method: "POST", path: "/api/v1/access/" + tt.path, body: tt.body, header: map[string]string{"Content-Type": jsonType}}); status != 401 && status != 429 {
				t.Errorf("answered %d without the token", status)
			}
		})
	}
	var list []gateway.AccessEntry
	_, _, body := d.ask(request{path: "/api/v1/access", header: auth})
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list) != 2 || list[0].By != "web:owner" {
		t.Errorf("access is %s (%v)", body, err)
	}
	if status, _, _ := d.ask(request{path: "/api/v1/access"}); status == 200 {
		t.Error("the list is shown without the token")
	}
}

func pagePairings(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	d.backend.Knock(gateway.AccessEntry{Sender: "irc:eve\u202e", Name: "Eve <b>", State: "open", Code: "ABCD-EFGH"})
	d.backend.Knock(gateway.AccessEntry{Sender: "irc:bob", State: "open", Code: "JKLM-NPQR"})
	d.backend.Knock(gateway.AccessEntry{Sender: "irc:zoe", State: "open", Code: gatewaytest.LockOut})
	d.backend.Knock(gateway.AccessEntry{Sender: "irc:amy", State: "paired", Role: "guest"})
	d.backend.Knock(gateway.AccessEntry{Sender: "irc:olga", State: "open", Code: "STUV-WXYZ", Configured: "owner"}) // since she asked
	p := visit(t, b, d)
	p.visible(".pairing")
	p.want(`document.querySelectorAll(".pairing").length`, "3")
	p.want(`document.querySelector(".pairing h2").textContent`, "Let irc:eveU+202E in?")
	p.want(`document.querySelector(".pairing dl").textContent`, "CodeABCD-EFGHNameEve <b>")
	p.click(`[data-code='ABCD-EFGH'] .approve`)
	p.until(`!document.querySelector("[data-code='ABCD-EFGH']")`)
	p.click(`[data-code='JKLM-NPQR'] .deny`)
	p.until(`!document.querySelector("[data-code='JKLM-NPQR']")`)
	p.click(`[data-code='LOCK-LOCK'] .approve`)
	p.until(`document.querySelector("#notice").textContent.includes("too many wrong codes")`)
	p.click(`[data-code='LOCK-LOCK'] .deny:enabled`)
	states := map[string]string{}
	list, err := d.backend.Access(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		states[string(e.Sender)] = e.State
	}
	if states["irc:eve\u202e"] != "paired" || states["irc:bob"] != "denied" || states["irc:zoe"] != "open" {
		t.Errorf("decided: %v", states)
	}
}
