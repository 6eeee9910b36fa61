package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
)

// pageSaysWhy opens the trace of an answer, which shows what a stranger wrote as text and nothing else.
func pageSaysWhy(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	p.say("hello")
	p.until(idle + ` && document.querySelectorAll(".why").length === 1`)
	p.click(".why")
	p.until(`document.querySelector("#why-body").textContent.includes("The trace is not available: run flynn explain")`)
	p.click("#close-why")

	d.backend.Traces("guard: <img src=x onerror=window.pwned=1> \u202e")
	p.reload()
	p.until(`document.querySelectorAll(".why").length === 1`)
	p.click(".why")
	p.until(`document.querySelectorAll(".trace li").length > 2`)
	p.want(`document.querySelector("#why").open`, "true")
	p.want(`document.querySelector("#why-body .lead").textContent.startsWith("turn ")`, "true")
	p.want(`[...document.querySelectorAll(".trace .what")].some((n) => n.textContent.startsWith("restricted: guard: <img src=x"))`, "true")
	p.want(`[...document.querySelectorAll(".trace .what")].some((n) => n.textContent === "outcome: denied")`, "true")
	p.want(`window.pwned`, "undefined")
	p.want(`document.querySelector("#why-body img")`, "null")
}

func TestTurnTraces(t *testing.T) {
	d := open(t, gatewaytest.Demo)
	d.backend.Traces("guard: no")
	signedIn := map[string]string{"Authorization": "Bearer TOKEN"}
	var got gateway.TurnTrace
	for _, c := range []struct {
		name, path string
		status     int
	}{
		{"a turn", "/api/v1/turns/t1", http.StatusOK},
		{"a message", "/api/v1/turns/message%2F7", http.StatusOK},
		{"no name", "/api/v1/turns/", http.StatusNotFound},
		{"a control character", "/api/v1/turns/a%00b", http.StatusBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, _, body := d.ask(request{path: c.path, header: signedIn})
			if status != c.status {
				t.Fatalf("status %d: %s", status, body)
			}
			if c.status == http.StatusOK {
				if err := json.Unmarshal([]byte(body), &got); err != nil || !strings.HasSuffix(c.path, url.PathEscape(got.ID)) || len(got.Lines) == 0 || len(got.Title) == 0 {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
	d.backend.Traces("")
	if status, _, body := d.ask(request{path: "/api/v1/turns/t9", header: signedIn}); status != http.StatusNotFound {
		t.Errorf("an unknown turn: %d %s", status, body)
	}
}
