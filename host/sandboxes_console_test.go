package host

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
)

// TestConsoleOfALiveSandbox opens the rooms over a host and an engine that are real, types into a shell, and halts the host meanwhile.
func TestConsoleOfALiveSandbox(t *testing.T) {
	b := newBoxedHost(t)
	tab, closeTab := chromedp.NewContext(gatewaytest.Browser(t, chromedp.WindowSize(1180, 820)))
	defer closeTab()
	if err := chromedp.Do(tab, chromedp.Navigate(b.URL())); err != nil {
		t.Fatal(err)
	}
	eval := func(expr string) string {
		t.Helper()
		out, err := gatewaytest.Eval(tab, expr)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	until := func(expr string) {
		t.Helper()
		if err := gatewaytest.Until(tab, expr); err != nil {
			t.Fatal(err)
		}
	}
	until(`document.querySelector("#connection.connected")`)
	eval(`location.hash = "sandboxes"`)
	until(`document.querySelectorAll("#room tbody tr").length === 2 && document.querySelector("#room").textContent.includes("No self-test has run")`)
	eval(`location.hash = "sandboxes/files/` + b.id + `"`)
	until(`document.querySelector("#room table")?.textContent.includes("<img src=x>")`)
	for _, room := range []string{"policies", "timeline", "timeline/grants", "timeline/approvals", "timeline/audit"} {
		eval(fmt.Sprintf("location.hash = %q", room))
		until(`document.querySelector("#room .room-empty")`)
	}
	eval(`location.hash = "sandboxes/terminal/` + b.id + `"`)
	until(`document.querySelector("#room .badge")?.textContent === "connected"`)
	if err := chromedp.Do(tab, chromedp.SendKeys(".typing input", "echo a$((20+22))z\r")); err != nil {
		t.Fatal(err)
	}
	until(`document.querySelector(".screen").textContent.includes("a42z")`)
	if err := b.kill.Set(t.Context(), true, "fire", "web:owner"); err != nil {
		t.Fatal(err)
	}
	until(`document.querySelector("#room .badge")?.textContent === "ended" && document.querySelector("#room").textContent.includes("the host was halted")`)
	eval(`location.hash = "timeline/audit"`)
	until(`document.querySelectorAll("#room tbody tr").length === 2`)
	if got := eval(`document.querySelectorAll("#room img").length`); got != "0" {
		t.Errorf("%s names became markup", got)
	}
}
