package livetest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	w "github.com/flynnhost/flynn/host/policy/meter/wasmtest"
	"github.com/flynnhost/flynn/plugins/irc/irctest"
	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
	"github.com/flynnhost/flynn/sdk/policy/abi"
)

// dayConfig is a family's Flynn before the day: one channel, one agent with few tools, and a policy that allows everything.
const dayConfig = `
# The family's Flynn.
[gateway]
listen = "127.0.0.1:%PORT%"
[store]
dir = "%DIR%/state"
[plugins]
dir = "%DIR%/plugins"
[agent_configs.helper]
system_prompt = "You help the family."
[routing]
default_agent = "helper"
[models.default]
provider = "demo"
[models.default.prices]
input = 3.0
output = 15.0
[plugins.dev_paths]
irc = "%BIN%/irc"
[channels.irc]
plugin = "irc"
address = "ADDRESS"
tls = false
identity = "nick"
flood_interval_ms = 1
access = "pair"
[[policies]]
name = "guard"
path = "guard.wasm"
kinds = ["tool"]
` + unhurried

// guard is a policy that answers every call of a tool alike.
func guard(answer int64) string {
	return string(w.Policy(1).Hook("flynn_tool", "", w.I64(answer)))
}

// TestADayOfTheOwner does with clicks and keys what an owner does on a day: everything happens in one page, over the real program, an
// IRC and a Telegram.
func TestADayOfTheOwner(t *testing.T) {
	t.Parallel()
	irc, family := irctest.New(t, irctest.Config{}), telegramtest.Start(t)
	s := newSite(t, strings.Replace(dayConfig, "ADDRESS", irc.Addr(), 1))
	s.write("guard.wasm", guard(0))
	s.mustFlynn("plugin", "install", telegramDir(t))
	s.start()
	p := owner{browse(t, s)}
	p.say("good morning")
	p.answered("1")

	// A stranger knocks, and is let in.
	s.eventually("Flynn is on IRC", func() error {
		if irc.Say("ann", "flynn", "hello?") == 0 {
			return errors.New("nobody hears")
		}
		return nil
	})
	p.press("Console")
	p.sees(`#room a[href="#people"]`, "irc:ann") // in the list of what waits
	p.press("People")
	p.press("Let in")
	p.sees("#room", "Nobody waits.")
	heard := func(text string) {
		t.Helper()
		s.eventually("Ann hears "+text, func() error {
			if !slices.ContainsFunc(irc.Said(), func(m irctest.Message) bool { return m.To == "ann" && m.Text == text }) {
				return fmt.Errorf("she heard %v", irc.Said())
			}
			return nil
		})
	}
	irc.Say("ann", "flynn", "may I come in?")
	heard("You said: may I come in?")

	// A second channel is added: with a wrong token first.
	p.press("Channels")
	p.press("Add a channel")
	p.pressIn("#room .kinds a", "telegram")
	p.fill("Name", "family")
	p.press("More settings")
	p.fill("Api url", family.URL)
	p.fill("Token", "4242424242:AAF-this_is_not_the_token_of_any_bot")
	p.press("Try the account")
	p.sees("#room .trouble", "Telegram does not know the token")
	p.fill("Token", telegramtest.Token)
	p.press("How Flynn treats it")
	p.choose("Access", "open")
	p.press("Try the account")
	p.sees("#room .room-notice.good", "It works")
	p.press("Add the channel")
	p.sees("#room dd .badge.good", "")
	bob := family.Private("Bob")
	bob.Say("dinner at eight?")
	bob.AwaitText(1, "You said: dinner at eight?")

	// The agent gets a tool.
	p.press("Agents")
	p.press("helper")
	p.sees("#room", "Change")
	p.want(`[...document.querySelectorAll("#room td b")].some((b) => b.textContent === "shell.exec")`, "false")
	p.press("Change")
	p.fill("allow", "shell.exec")
	p.press("Review …")
	p.sees("dialog[open] .diff .added", "shell.exec")
	p.press("Save")
	p.sees("#room .room-notice.good", "in force as configuration")
	p.press("Agents")
	p.press("helper")
	p.sees("#room td b", "shell.exec")

	// It uses the tool, after an approval on a phone, from another room than the chat.
	p.press("Chat")
	p.say("!sh echo tool-$((40+2))")
	p.sees(".approval .asked", "echo tool-$((40+2))")
	p.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch))
	p.press("Show navigation")
	p.press("Console")
	p.press("Memory")
	p.press("A request waits for your answer")
	p.sees("dialog[open] .approval .asked pre", "echo tool-$((40+2))")
	p.want(`document.documentElement.scrollWidth <= innerWidth`, "true")
	p.press("Once")
	p.until(`!document.querySelector("dialog[open]") && !document.querySelector(".waits")`)
	p.until(`document.activeElement.id === "room"`)
	p.press("Show navigation")
	p.press("Chat")
	p.sees(".call .output pre", "tool-42")
	p.do(chromedp.EmulateViewport(1180, 820))

	// A policy is tried on what was decided, put in force, and rules.
	p.press("Console")
	p.press("Policies")
	p.press("guard")
	p.press("Try a module")
	p.drop("strict.wasm", guard(abi.ToolDeny))
	p.sees("#room .room-notice.warn", "decision")
	p.sees("#room td .badge", "deny")
	p.press("Put it in force")
	p.sees("dialog[open]", "takes the place of the file of guard")
	p.press("Put it in force")
	p.sees("#room .room-notice.good", "In force, without a restart")
	p.press("Chat")
	p.say("!sh echo once more")
	p.sees(".call summary .deny", "denied")

	// A reminder is made, runs, and is seen in its history.
	p.press("Console")
	p.press("Schedules")
	p.press("New schedule")
	p.fill("Name", "bins")
	p.fill("Text", "Put the bins out")
	p.fill("Runs in the name of", "web:owner")
	p.fill("Times", "0 19 * * 4")
	p.sees("dialog[open] time", "Thu")
	p.press("Save to flynn.toml")
	p.until(`location.hash === "#schedules/bins"`)
	p.sees("#room", "It has not run yet.")
	p.press("Run now")
	p.sees("#room td .badge.good", "done")

	// The bill is looked at, and bounded.
	p.press("Models")
	p.press("Usage")
	for _, by := range []string{"agent", "person", "model"} {
		p.choose("By", by)
		p.sees("#room figure", map[string]string{"agent": "helper", "person": "irc:ann", "model": "demo"}[by])
		p.want(`[...document.querySelectorAll("#room figure")].some((f) => /\$0\.0*[1-9]/.test(f.textContent))`, "true")
	}
	p.press("Budgets")
	p.press("Set budgets")
	p.fill("host_usd_per_day", "2.5")
	p.press("Review …")
	p.sees("dialog[open] .diff .added", "host_usd_per_day")
	p.press("Save")
	p.sees("#room .room-notice.good", "in force as configuration")
	p.press("Models")
	p.press("Budgets")
	p.sees("#room td", "of $2.50")

	// Everything is halted, and goes on.
	p.press("Halt")
	p.press("Halt everything")
	p.sees("#status-body .warning", "Everything is halted")
	irc.Say("ann", "flynn", "are you there?")
	s.eventually("the message waits", func() error { return s.metric(`flynn_messages_total{channel="irc",fate="new"} 2`) })
	p.press("Resume")
	p.press("Close")
	heard("You said: are you there?")
	p.press("Today")
	p.until(`document.querySelector("#room h1").textContent === "Today" && !document.querySelector("#room .room-notice.bad")`)
	p.pictures()
}

// pictures takes pictures of every room, light, dark and on a phone, for docs/console.md, if FLYNN_TEST_SHOTS names a folder.
func (p owner) pictures() {
	dir := os.Getenv("FLYNN_TEST_SHOTS")
	if dir == "" {
		return
	}
	p.t.Helper()
	for _, look := range []struct {
		name, scheme string
		wide, high   int64
	}{{"light", "light", 1180, 760}, {"dark", "dark", 1180, 760}, {"phone", "light", 390, 760}} {
		p.do(chromedp.EmulateViewport(look.wide, look.high))
		if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: look.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}}); err != nil {
			p.t.Fatal(err)
		}
		for _, room := range []struct{ name, at, has string }{
			{"chat", "/web/main", ".call"}, {"today", "today", "#room .lines"}, {"people", "people", "#room tbody"}, {"policies", "policies", "#room section tbody"},
			{"timeline", "timeline", "#room tbody"}, {"sandboxes", "sandboxes", "#room tbody"}, {"agents", "agents/of/helper", "#room tbody"},
			{"schedules", "schedules/bins", "#room tbody"}, {"memory", "memory", "#room .room-empty"}, {"models", "models/usage", "#room figure"},
			{"channels", "channels", "#room tbody"}, {"settings", "settings/budgets", "#room .setting"}, {"doctor", "doctor", "#room .button"},
		} {
			p.eval(fmt.Sprintf("location.hash = %q", room.at))
			p.until(fmt.Sprintf(`document.querySelector(%q)?.checkVisibility() && (document.querySelector("#room").hidden ||
				document.querySelector("#room-side a[aria-current]").textContent === document.querySelector("#room h1").textContent)`, room.has))
			p.eval(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`)
			shot, err := chromedp.Call(p.ctx, cdpage.CaptureScreenshot, cdpage.CaptureScreenshotParams{Format: "webp", Quality: new(int64(70))})
			if err != nil {
				p.t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, room.name+"-"+look.name+".webp"), shot.Data, 0o644); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// owner uses the page as a person does, who sees names and places and knows nothing of selectors.
type owner struct{ page }

func (p owner) want(expr, want string) {
	p.t.Helper()
	if got := p.eval(expr); got != want {
		p.t.Errorf("%s is %s, want %s", expr, got, want)
	}
}

// sees waits until one of the elements that a selector finds is visible and has a text.
func (p owner) sees(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.checkVisibility() && e.textContent.includes(%q))`, selector, text))
}

// reach is a function that finds the middle of the first element of a list that a person could press now: nothing covers it.
const reach = `((list) => {
	for (const e of list) {
		if (!e.checkVisibility({ visibilityProperty: true }) || e.disabled) continue;
		e.scrollIntoView({ block: "center", behavior: "instant" });
		const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2;
		const top = document.elementFromPoint(x, y);
		if (top && (e.contains(top) || top.contains(e) && top.tagName === "SUMMARY")) return x + " " + y;
	}
	return "";
})`

// pressIn presses the first element of a selector that begins with a text.
func (p owner) pressIn(selector, text string) {
	p.t.Helper()
	p.pressOne(fmt.Sprintf(`[...document.querySelectorAll(%q)].filter((e) => e.textContent.trim().startsWith(%q))`, selector, text), text)
}

// press presses what has a name: a button, a link or a summary; of a dialog, if one is open.
func (p owner) press(name string) {
	p.t.Helper()
	p.pressOne(fmt.Sprintf(`[...(document.querySelector("dialog[open]") ?? document).querySelectorAll("button, a, summary")]
		.filter((e) => (e.getAttribute("aria-label") ?? e.textContent).trim() === %q)`, name), name)
}

func (p owner) pressOne(list, name string) {
	p.t.Helper()
	p.t.Logf("press %s", name)
	before := ""
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var x, y float64
		place := p.eval(reach + "(" + list + ")")
		if n, _ := fmt.Sscan(place, &x, &y); n == 2 && place == before { // it does not slide in any more
			p.do(chromedp.MouseClickXY(x, y))
			return
		}
		before = place
		if time.Now().After(deadline) {
			p.t.Fatalf("nobody can press %q; the page says: %s", name, p.eval("document.body.innerText"))
		}
	}
}

// field is the input with a label.
func field(label string) string {
	return fmt.Sprintf(`[...(document.querySelector("dialog[open]") ?? document).querySelectorAll("label")]
		.filter((l) => l.textContent.trim() === %q && l.checkVisibility()).map((l) => document.getElementById(l.htmlFor)).find(Boolean)`, label)
}

// fill types a text into a field, in place of what is there.
func (p owner) fill(label, text string) {
	p.t.Helper()
	p.until(field(label))
	p.eval(fmt.Sprintf(`((f) => { f.focus(); f.select(); })(%s)`, field(label)))
	p.do(chromedp.KeyEvent(text))
	p.until(fmt.Sprintf(`%s?.value === %q`, field(label), text))
}

// choose chooses one of the options of a field.
func (p owner) choose(label, option string) {
	p.t.Helper()
	p.until(field(label))
	p.eval(fmt.Sprintf(`((f) => {
		f.focus();
		f.value = [...f.options].find((o) => o.textContent === %q).value;
		f.dispatchEvent(new Event("input", { bubbles: true }));
	})(%s)`, option, field(label)))
}

// drop drops a file where files are dropped.
func (p owner) drop(name, content string) {
	p.t.Helper()
	p.until(`document.querySelector("#room .drop")`)
	p.eval(fmt.Sprintf(`(() => {
		const data = new DataTransfer();
		data.items.add(new File([Uint8Array.from(atob(%q), (c) => c.charCodeAt(0))], %q));
		document.querySelector("#room .drop").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
	})()`, base64.StdEncoding.EncodeToString([]byte(content)), name))
}
