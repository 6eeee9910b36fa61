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
		name, what, body string
		want             int
		says             string
	}{
		{"approve", "POST decision", `{"code":"ABCD-EFGH","approve":true}`, 200, `"state":"paired"`},
		{"deny", "POST decision", `{"code":"JKLM-NPQR","approve":false}`, 200, `"state":"denied"`},
		{"a wrong code", "POST decision", `{"code":"AAAA-AAAA","approve":true}`, 404, "not_found"},
		{"no answer", "POST decision", `{"code":"AAAA-AAAA"}`, 422, "approve"},
		{"no code", "POST decision", `{"approve":true}`, 422, "code"},
		{"a role with it", "POST decision", `{"code":"ABCD-EFGH","approve":true,"role":"owner"}`, 422, "role"},
		{"locked out", "POST decision", `{"code":"` + gatewaytest.LockOut + `","approve":true}`, 429, "too many wrong codes"},
		{"raise", "PATCH irc:eve", `{"role":"member"}`, 204, ""},
		{"raise too far", "PATCH irc:eve", `{"role":"owner"}`, 422, "guest, member"},
		{"raise nobody", "PATCH irc:zoe", `{"role":"member"}`, 404, "not_found"},
		{"revoke", "DELETE irc:eve", ``, 204, ""},
		{"revoke again", "DELETE irc:eve", ``, 404, "not_found"},
		{"revoke nobody", "DELETE ", ``, 404, "no such path"},
		{"a huge sender", "DELETE " + strings.Repeat("x", 2000), ``, 422, "sender"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			method, path, _ := strings.Cut(tt.what, " ")
			status, _, body := d.ask(request{method: method, path: "/api/v1/people/" + path, body: tt.body, header: auth})
			if status != tt.want || !strings.Contains(body, tt.says) {
				t.Errorf("answered %d %s, want %d with %q", status, body, tt.want, tt.says)
			}
			if status, _, _ := d.ask(request{method: method, path: "/api/v1/people/" + path, body: tt.body, header: map[string]string{"Content-Type": jsonType}}); status != 401 && status != 429 {
				t.Errorf("answered %d without the token", status)
			}
		})
	}
	var list []gateway.AccessEntry
	_, _, body := d.ask(request{path: "/api/v1/people", header: auth})
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list) != 2 || list[0].By != "web:owner" {
		t.Errorf("access is %s (%v)", body, err)
	}
	if status, _, _ := d.ask(request{path: "/api/v1/people"}); status == 200 {
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
