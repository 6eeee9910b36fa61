package host

import (
	"context"
	"fmt"
	"testing"
	"time"

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
		ctx, cancel := context.WithTimeout(tab, time.Minute)
		defer cancel()
		out, err := chromedp.Run(ctx, chromedp.Evaluate[string]("Promise.resolve("+expr+").then(String)", chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		return out
	}
	until := func(expr string) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for eval("Boolean("+expr+")") != "true" {
			if time.Now().After(deadline) {
				t.Fatalf("the page never came to: %s\nit says: %s", expr, eval("document.body.innerText"))
			}
			time.Sleep(20 * time.Millisecond)
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
