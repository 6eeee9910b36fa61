package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/sdk/need"
)

// Browser starts a browser with an empty profile, which is closed with the test; tabs are opened from its context.
func Browser(t testing.TB, options ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	NeedBrowser(t)
	ctx, closed, err := StartBrowser(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closed(); err != nil {
			t.Error(err)
		}
	})
	return ctx
}

// NeedBrowser skips a test where no Chromium is installed, or fails it where that is required.
func NeedBrowser(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath(program())
	need.Part(t, Chromium, err)
}

// Chromium is the whole browser. Tests have it with chromedp.ExecPath where they need what the one without windows has not: that asks nobody
// for a microphone.
const Chromium = "chromium"

// program is the Chromium without the windows of a desktop, where it is installed: it takes half the processor's time.
func program() string {
	if path, err := exec.LookPath("chromium-headless-shell"); err == nil {
		return path
	}
	return Chromium
}

// StartBrowser starts the browser of several tests, which closed ends.
func StartBrowser(options ...chromedp.ExecAllocatorOption) (ctx context.Context, closed func() error, err error) {
	dir, err := os.MkdirTemp("", "flynn-browser")
	if err != nil {
		return nil, nil, err
	}
	all := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program()), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(time.Minute), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
	)
	ctx, stop := chromedp.NewExecAllocator(context.Background(), append(all, options...)...)
	ctx, _ = chromedp.NewContext(ctx)
	closed = func() error {
		closing, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		_ = chromedp.Cancel(closing) // what does not end in time is killed
		stop()
		return removed(dir)
	}
	// The browser lives as long as the context of the first call.
	if err := chromedp.Do(ctx); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start the browser: %w", err), closed())
	}
	return ctx, closed, nil
}

// Page returns the context of a person with no past in a browser that is shared; tabs are opened from it. It ends with the test.
func Page(t testing.TB, browser context.Context) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a window: %v", err)
	}
	return ctx
}

// patience is how long a page may take on a machine that has much other work.
const patience = 3 * time.Minute

// Eval returns the value of a JavaScript expression in a tab as a string, and that of a promise when it has one.
func Eval(tab context.Context, expr string) (string, error) {
	ctx, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[string]("Promise.resolve("+expr+").then(String)", chromedp.EvalAwaitPromise))
	if err != nil {
		return "", fmt.Errorf("evaluate %.200s: %w", expr, err)
	}
	return out, nil
}

// Until waits for a JavaScript expression in a tab to become true. It may meet a page that loads again, and so an error means not yet.
func Until(tab context.Context, expr string) error {
	ctx, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		is, err := Eval(ctx, "Boolean("+expr+")")
		if is == "true" {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			says, _ := Eval(tab, "document.body.innerText")
			return errors.Join(fmt.Errorf("the page never came to %s\nit says %s", expr, says), err)
		}
	}
}

// removed removes the profile folder of a browser, whose processes may write there for a moment after it has ended.
func removed(dir string) error {
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if err = os.RemoveAll(dir); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the browser's folder stays: %w", err)
}
