package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/sdk/need"
)

// hostile is what a page in a sandbox tries on the console and on another preview. Each entry must be an error, or not be readable.
const hostile = `(async () => {
  const [home, other, outside] = [%q, %q, %q];
  const tries = {};
  const attempt = async (name, f) => {
    try { tries[name] = String(await Promise.race([f(), new Promise((_, no) => setTimeout(() => no(new Error("timeout")), 3000))])); }
    catch (e) { tries[name] = "error: " + e.name + " " + e.message; }
  };
  const load = (tag, url) => new Promise((yes, no) => {
    const e = document.createElement(tag);
    e.onload = () => { let text = "loaded"; try { if (tag === "iframe") text = e.contentDocument ? e.contentDocument.body.innerText : "another origin"; } catch { text = "another origin"; } yes(text); };
    e.onerror = () => no(new Error("not loaded"));
    e[tag === "link" ? "href" : "src"] = url; document.body.append(e);
  });
  const socket = (url, protocol) => new Promise((yes, no) => { try { const s = new WebSocket(url, protocol); s.onopen = () => yes("open"); s.onerror = () => no(new Error("not open")); } catch (e) { no(e); } });
  for (const [what, url] of Object.entries({ home, other })) {
    const ws = url.replace("http", "ws");
    await attempt(what + " fetch", () => fetch(url + "/api/v1/status").then((r) => r.text()));
    await attempt(what + " fetch with cookies", () => fetch(url + "/", { credentials: "include" }).then((r) => r.text()));
    await attempt(what + " blind fetch", () => fetch(url + "/", { mode: "no-cors", credentials: "include" }).then((r) => r.type));
    await attempt(what + " blind post", () => fetch(url + "/api/v1/halt", { method: "POST", mode: "no-cors", body: "{}", credentials: "include" }).then((r) => r.type));
    await attempt(what + " put", () => fetch(url + "/api/v1/halt", { method: "PUT", body: "{}", headers: { "Content-Type": "application/json" } }).then((r) => r.status));
    await attempt(what + " script", () => load("script", url + "/app.js"));
    await attempt(what + " image", () => load("img", url + "/icon.svg"));
    await attempt(what + " frame", () => load("iframe", url + "/"));
    await attempt(what + " socket", () => socket(ws + "/ws"));
    await attempt(what + " api socket", () => socket(ws + "/api/v1/socket", "flynn.v1"));
    await attempt(what + " events", () => new Promise((yes, no) => { const s = new EventSource(url + "/events", { withCredentials: true }); s.onmessage = () => yes("event"); s.onerror = () => { s.close(); no(new Error("no events")); }; }));
    await attempt(what + " worker", () => navigator.serviceWorker.register(url + "/sw.js"));
    await attempt(what + " beacon", () => navigator.sendBeacon(url + "/api/v1/halt", "{}"));
  }
  await attempt("outside", () => fetch(outside + "/").then((r) => r.text()));
  await attempt("outside blind", () => fetch(outside + "/", { mode: "no-cors" }).then((r) => r.type));
  await attempt("own cookies", () => document.cookie);
  const parent = location.hostname.replace(/^[^.]*\.?/, "");
  document.cookie = "flynn-preview=tossed; Path=/";
  document.cookie = "flynn-preview=tossed; Path=/page";
  document.cookie = "flynn-preview=tossed; Domain=" + parent + "; Path=/";
  document.cookie = "tossed=1; Domain=" + parent + "; Path=/";
  document.cookie = "tossed=1; Domain=localhost; Path=/";
  await attempt("cookies after", () => document.cookie);
  await attempt("storage", () => JSON.stringify(Object.entries(localStorage)) + JSON.stringify(Object.entries(sessionStorage)));
  await attempt("opener", () => String(window.opener));
  await attempt("own page", () => fetch("/head").then((r) => r.status));
  await attempt("own worker", () => navigator.serviceWorker.register("/sw.js", { scope: "/" }).then((r) => r.scope));
  await attempt("own socket", () => socket(location.origin.replace("http", "ws") + "/ws"));
  await attempt("own frame", () => load("iframe", "/"));
  return JSON.stringify(tries);
})()`

// TestPreviewsInABrowser opens previews in a real browser; a page in one of them tries what a hostile one would.
func TestPreviewsInABrowser(t *testing.T) {
	p := newPreviewed(t, "127.0.0.1:0", "")
	attacked(t, p, p.base, "")
}

// TestPreviewsOfOneSite is the same where the console and all previews are one site, whose cookies browsers send among them.
func TestPreviewsOfOneSite(t *testing.T) {
	listen := need.Address(t)
	_, port, _ := strings.Cut(listen, ":")
	home := "http://home.preview.localhost:" + port
	p := newPreviewed(t, listen, fmt.Sprintf("origins = [%q]\npreview_origin = \"http://*.preview.localhost:%s\"", home, port))
	attacked(t, p, home, "flynn-preview=tossed; tossed=1")
}

// attacked has the page of a preview attack the console, which is at home, and another preview. tossed are the cookies that the page can set
// for its neighbours; they may not sign anybody in or out.
func attacked(t *testing.T, p *previewed, home, tossed string) {
	t.Helper()
	tab, closeTab := chromedp.NewContext(gatewaytest.Browser(t, chromedp.WindowSize(390, 844)))
	defer closeTab()
	eval := func(expr string) string {
		t.Helper()
		out, err := gatewaytest.Eval(tab, expr)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	visit := func(address string) {
		t.Helper()
		if err := chromedp.Do(tab, chromedp.Navigate(address)); err != nil {
			t.Fatal(err)
		}
	}
	eventuallyTrue := func(expr string) {
		t.Helper()
		if err := gatewaytest.Until(tab, expr); err != nil {
			t.Fatal(err)
		}
	}
	outside := newVisited(t)
	other, mine := p.open(4000), p.open(3000)
	console := strings.Replace(p.URL(), p.base, home, 1)
	visit(console)
	eventuallyTrue(`document.querySelector("#connection.connected")`)
	for _, link := range []gateway.PreviewLink{other, mine} {
		visit(link.Link)
		eventuallyTrue(`document.title === "hello from inside" && location.pathname === "/" && location.search === "" && document.readyState === "complete"`)
	}
	if err := chromedp.Do(tab, chromedp.Reload()); err != nil {
		t.Fatal(err)
	}
	eventuallyTrue(`document.title === "hello from inside" && document.readyState === "complete"`)

	attack := func(t *testing.T, outsideWant string) {
		var tries map[string]string
		text := eval(fmt.Sprintf(hostile, home, strings.TrimSuffix(other.Address, "/"), outside.URL))
		if err := json.Unmarshal([]byte(text), &tries); err != nil {
			t.Fatal(err, text)
		}
		may := map[string]string{
			"own page": "200", "own worker": mine.Address, "own socket": "open", "own frame": "hello", "opener": "null", "storage": "[][]",
			"home frame": "another origin", "other frame": "another origin", // the browser's own page that says no
			"home beacon": "true", "other beacon": "true", // sent or not, nobody is told
			"outside": outsideWant,
		}
		for name, got := range tries {
			if name == "own cookies" || name == "cookies after" {
				if got != "" && got != tossed {
					t.Errorf("%s: %q", name, got)
				}
				continue
			}
			if want := may[name]; got != want && (want != "" || !strings.HasPrefix(got, "error: ")) && name != "outside blind" {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		if len(tries) < 36 {
			t.Errorf("%d tries: %s", len(tries), text)
		}
		v := newVisitor(t)
		v.get(p.relink(other.ID))
		if _, seen, _ := v.get(other.Address + "seen"); !strings.Contains(seen, "GET /") || strings.Contains(seen, "POST") || strings.Contains(seen, "/api") || strings.Contains(seen, "/ws") || strings.Contains(seen, ".js") {
			t.Errorf("the other program saw %s", seen)
		}
		if why := p.kill.Why(); why != "" {
			t.Errorf("a page halted the host: %s", why)
		}
	}
	attack(t, "")
	if n := outside.seen.Load(); n != 0 {
		t.Errorf("the page of a sandbox without a network told somebody else %d times", n)
	}
	// The same without the policy that keeps such a page to its own origin: what is left is what guards those of other sandboxes.
	if _, err := chromedp.Call(tab, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: true}); err != nil {
		t.Fatal(err)
	}
	visit(mine.Address)
	eventuallyTrue(`document.title === "hello from inside" && document.readyState === "complete"`)
	attack(t, "somewhere else")
	visit(mine.Address)
	eventuallyTrue(`document.title === "hello from inside" && document.readyState === "complete"`) // no tossed cookie has signed the browser out
	visit(other.Address)
	eventuallyTrue(`document.title === "hello from inside" && document.readyState === "complete"`)
	if status := p.ask(http.MethodDelete, "/previews/"+mine.ID, nil, nil); status != http.StatusNoContent {
		t.Error(status)
	}
	visit(mine.Address)
	eventuallyTrue(`document.body.innerText.includes("not open") || document.title === "hello from inside" && navigator.serviceWorker.controller`)
	visit(console)
	eventuallyTrue(`document.querySelector("#connection.connected")`)
}

// shown is a page as a program in a sandbox may serve it.
const shown = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Bins</title>
<style>:root{color-scheme:light dark}body{font:1.1rem/1.6 system-ui;max-width:38rem;margin:3rem auto;padding:0 1.2rem}li{padding:.2rem 0}b{color:#2f7d4f}</style>
<h1>When are the bins out?</h1><ul><li><b>Thursday</b> paper and glass</li><li><b>Friday</b> the rest</li></ul><p>Made by the agent, served on port 3000.</p>`

// TestThePreviewsRoom opens a preview from the room as an owner does, at the size of a laptop and of a phone. It takes pictures of the room and
// of the page that is shown for docs/console.md if FLYNN_TEST_SHOTS names a folder.
func TestThePreviewsRoom(t *testing.T) {
	p := newPreviewed(t, "127.0.0.1:0", "")
	if err := p.box.WriteFile(t.Context(), "page.html", []byte(shown), 0o644); err != nil {
		t.Fatal(err)
	}
	tab, closeTab := chromedp.NewContext(gatewaytest.Browser(t))
	defer closeTab()
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
	visit := func(address string) {
		t.Helper()
		if err := chromedp.Do(tab, chromedp.Navigate(address)); err != nil {
			t.Fatal(err)
		}
	}
	looks := []struct {
		name, scheme string
		wide, high   int64
	}{{"light", "light", 1180, 760}, {"dark", "dark", 1180, 760}, {"phone", "light", 390, 760}}
	show := func(what string) {
		t.Helper()
		for _, look := range looks {
			if err := chromedp.Do(tab, chromedp.EmulateViewport(look.wide, look.high)); err != nil {
				t.Fatal(err)
			}
			if _, err := chromedp.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: look.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
			}}); err != nil {
				t.Fatal(err)
			}
			eval(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`)
			if got := eval(`document.documentElement.scrollWidth <= innerWidth`); got != "true" {
				t.Errorf("%s is wider than the window, %s", what, look.name)
			}
			dir := os.Getenv("FLYNN_TEST_SHOTS")
			if dir == "" {
				continue
			}
			shot, err := chromedp.Call(tab, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: "webp", Quality: new(int64(70))})
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, what+"-"+look.name+".webp"), shot.Data, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	link := p.open(3000)
	visit(p.URL())
	until(`document.querySelector("#connection.connected")`)
	eval(`location.hash = "previews"`)
	until(`[...document.querySelectorAll("#room button")].some((b) => b.checkVisibility() && b.textContent.includes("4000"))`)
	until(`document.querySelectorAll("#room tbody").length === 2 && document.querySelector("#room h1").textContent === "Previews"`)
	show("previews")
	visit(link.Link)
	until(`document.title === "Bins" && document.readyState === "complete"`)
	show("preview-page")
}
