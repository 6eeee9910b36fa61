package livetest

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
)

// page is the web page of a site in a browser of its own.
type page struct {
	t   testing.TB
	ctx context.Context
}

// browse opens the address that the host printed.
func browse(t testing.TB, s *site) page {
	t.Helper()
	p := page{t, gatewaytest.Browser(t)}
	p.do(chromedp.Navigate(s.url))
	p.until(`document.querySelector("#connection.connected")`)
	return p
}

func (p page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("browser: %v", err)
	}
}

// eval returns the value of a JavaScript expression as a string.
func (p page) eval(expr string) string {
	p.t.Helper()
	out, err := gatewaytest.Eval(p.ctx, expr)
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// until waits for an expression to become true.
func (p page) until(expr string) {
	p.t.Helper()
	if err := gatewaytest.Until(p.ctx, expr); err != nil {
		p.t.Fatal(err)
	}
}

// click presses an element as soon as it is visible and enabled.
func (p page) click(selector string) {
	p.t.Helper()
	p.until(`document.querySelector("` + selector + `:enabled")?.checkVisibility({visibilityProperty: true})`)
	p.do(chromedp.Click(selector))
}

// say types a message and presses Enter.
func (p page) say(text string) {
	p.t.Helper()
	p.do(chromedp.SendKeys("#draft", text+"\r"))
}

// text is what the last element that matches shows.
func (p page) text(selector string) string {
	p.t.Helper()
	return p.eval(`[...document.querySelectorAll("` + selector + `")].at(-1)?.textContent ?? ""`)
}

// answered waits for the n-th answer and returns it.
func (p page) answered(n string) string {
	p.t.Helper()
	p.until(`document.querySelectorAll(".message.agent:not(.streaming)").length >= ` + n)
	return p.text(".message.agent")
}
