package livetest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/sdk/need"
)

// page is the web page of a site in a browser of its own.
type page struct {
	t   testing.TB
	ctx context.Context
}

// browse opens the address that the host printed.
func browse(t testing.TB, s *site) page {
	t.Helper()
	path, err := exec.LookPath("chromium")
	need.Part(t, "chromium", err)
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(profile(t)), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(patience), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
	)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, _ := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		if err := chromedp.Cancel(closing); err != nil {
			t.Logf("close the browser: %v", err)
		}
		stop()
	})
	// The browser lives as long as the context of the first call.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	p := page{t, ctx}
	p.do(chromedp.Navigate(s.url))
	p.until(`document.querySelector("#connection.connected")`)
	return p
}

// profile is a folder for what a browser keeps. Processes of the browser may write there for a moment after it has ended.
func profile(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "flynn-browser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var err error
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if err = os.RemoveAll(dir); err == nil {
				return
			}
		}
		t.Errorf("the browser's folder stays: %v", err)
	})
	return dir
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
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[string]("Promise.resolve("+expr+").then(String)", chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", expr, err)
	}
	return out
}

// until waits for an expression to become true.
func (p page) until(expr string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); p.eval("Boolean("+expr+")") != "true"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("the page never came to: %s\nit says: %s", expr, p.eval("document.body.innerText"))
		}
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
