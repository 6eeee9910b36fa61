package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
)

// chromium is the browser of all tests, which the first one that needs it starts.
var chromium struct {
	sync.Mutex
	ctx    context.Context
	closed func() error
}

// browser returns the context of a person of its own in the browser, whose windows have the size of a laptop.
func browser(t testing.TB) context.Context {
	t.Helper()
	gatewaytest.NeedBrowser(t)
	chromium.Lock()
	defer chromium.Unlock()
	if chromium.ctx == nil {
		var err error
		if chromium.ctx, chromium.closed, err = gatewaytest.StartBrowser(chromedp.WindowSize(1180, 820)); err != nil {
			t.Fatal(err)
		}
	}
	return gatewaytest.Page(t, chromium.ctx)
}

func closeBrowser() error {
	if chromium.closed == nil {
		return nil
	}
	return chromium.closed()
}

// pageDriver drives the chat page in a tab of its own.
type pageDriver struct {
	t   testing.TB
	ctx context.Context
}

// visit opens the page of d. A script that throws, or anything that the page's own policy refuses, fails the test.
func visit(t testing.TB, browser context.Context, d *fixture) pageDriver {
	t.Helper()
	tab, closeTab := chromedp.NewContext(browser)
	p := pageDriver{t, tab}
	if err := chromedp.Do(tab); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	messages := chromedp.Console(tab)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m, err := range messages {
			if err != nil {
				return
			}
			if refused := strings.Contains(m.Text, "Content Security Policy") && !strings.Contains(m.Text, "TrustedHTML"); m.Type == chromedp.ConsoleException || refused {
				t.Errorf("console: %s (%s:%d)", m.Text, m.URL, m.Line)
			}
		}
	}()
	t.Cleanup(func() {
		closeTab()
		<-done
	})
	// Other windows are open: this one behaves as if the person worked in it.
	if _, err := chromedp.Call(tab, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.Navigate(d.server.URL()))
	p.connected()
	return p
}

func (p pageDriver) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.fatal("browser: %v", err)
	}
}

func (p pageDriver) fatal(format string, args ...any) {
	p.t.Helper()
	p.shot("failed-" + strings.ReplaceAll(p.t.Name(), "/", "-"))
	p.t.Fatalf(format, args...)
}

// eval returns the value of a JavaScript expression as a string.
func (p pageDriver) eval(expr string) string {
	p.t.Helper()
	out, err := gatewaytest.Eval(p.ctx, expr)
	if err != nil {
		p.fatal("%v", err)
	}
	return out
}

func (p pageDriver) want(expr, want string) {
	p.t.Helper()
	if got := p.eval(expr); got != want {
		p.t.Errorf("%s\n got %q\nwant %q", expr, got, want)
	}
}

// until waits for an expression to become true.
func (p pageDriver) until(expr string) {
	p.t.Helper()
	if err := gatewaytest.Until(p.ctx, expr); err != nil {
		p.fatal("%v", err)
	}
}

func (p pageDriver) visible(selector string) {
	p.t.Helper()
	p.until(`document.querySelector("` + selector + `")?.checkVisibility({visibilityProperty: true})`)
}

// click presses the mouse on an element as soon as it is visible and enabled.
func (p pageDriver) click(selector string) {
	p.t.Helper()
	p.visible(selector + ":enabled")
	p.do(chromedp.Click(selector))
}

func (p pageDriver) connected() {
	p.t.Helper()
	p.visible("#connection.connected")
}

func (p pageDriver) reload() {
	p.t.Helper()
	p.do(chromedp.Reload())
	p.connected()
}

// say types a message and presses Enter.
func (p pageDriver) say(text string) {
	p.t.Helper()
	p.do(chromedp.SendKeys("#draft", text+"\r"))
}

// shot saves a picture when FLYNN_TEST_SHOTS names a folder.
func (p pageDriver) shot(name string) {
	dir := os.Getenv("FLYNN_TEST_SHOTS")
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Logf("take picture %s: %v", name, err)
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		p.t.Log(err)
	}
}
