package gatewaytest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/sdk/need"
)

// Browser starts a Chromium with an empty profile, which is closed with the test; tabs are opened from its context.
func Browser(t testing.TB, options ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	need.Part(t, "chromium", err)
	all := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(profile(t)), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(time.Minute), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
	)
	ctx, stop := chromedp.NewExecAllocator(context.Background(), append(all, options...)...)
	ctx, _ = chromedp.NewContext(ctx)
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
	return ctx
}

// profile is the profile folder of a browser, whose processes may write there for a moment after it has ended.
func profile(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "flynn-browser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var err error
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if err = os.RemoveAll(dir); err == nil {
				return
			}
		}
		t.Errorf("the browser's folder stays: %v", err)
	})
	return dir
}
