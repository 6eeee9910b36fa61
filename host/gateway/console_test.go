package gateway_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

// console is the folder of the console's files.
var console = os.DirFS("console")

// TestRooms opens every room of the console in a real browser.
func TestRooms(t *testing.T) {
	t.Parallel()
	b := browser(t)
	for _, tt := range []struct {
		name string
		run  func(*testing.T, context.Context)
	}{
		{"today", roomToday},
		{"notifications", roomNotifies},
		{"focus", roomsKeepFocus},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, b) })
	}
}

// room opens a room of d, and waits for its title.
func room(t *testing.T, b context.Context, d *fixture, name, title string) pageDriver {
	t.Helper()
	p := visit(t, b, d)
	p.eval(`location.hash = "` + name + `"`)
	p.until(`document.querySelector("#room h1")?.textContent === "` + title + `"`)
	p.until(`!document.querySelector("#room [role=status]")?.textContent.includes("Loading")`)
	p.placed()
	return p
}

// placed waits for the keyboard to be somewhere on the page.
func (p pageDriver) placed() {
	p.t.Helper()
	p.until(`document.activeElement !== document.body && document.activeElement.checkVisibility()`)
}

func roomToday(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	for _, v := range rude.Texts() {
		if len(v.Text) < 300 {
			d.backend.Knock(gateway.AccessEntry{Sender: "irc:eve", Name: v.Text, State: "open", Code: v.Name})
		}
	}
	p := room(t, b, d, "today", "Today")
	p.until(`document.querySelectorAll("#room a[href='#people']").length > 5`)
	p.want(`document.querySelectorAll("#room img, #room script, #room b").length`, "0")
	p.looks("today")
	p.want(`getComputedStyle(document.querySelector("#chat")).display`, "none")
	p.click("#to-chat")
	p.until(`location.hash.startsWith("#/web/") && document.querySelector("#composer").checkVisibility()`)
	p.eval(`history.back()`)
	p.until(`document.querySelector("#room h1")?.textContent === "Today"`)
	p.click("#halt-now")
	p.want(`document.activeElement.id`, "halt")
	d.stop()
	p.until(`document.querySelector(".away")?.textContent.includes("catches up by itself")`)
	d.start()
	p.until(`!document.querySelector(".away")`)
}

// roomsKeepFocus goes through the console by keyboard: after each room, dialog and deletion the keyboard is somewhere.
func roomsKeepFocus(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	d.backend.Knock(gateway.AccessEntry{Sender: "irc:bob", State: "paired", Role: "guest", Effective: "guest"})
	p := visit(t, b, d)
	press := func(selector string, key string) {
		t.Helper()
		p.visible(selector + ":not(:disabled)")
		p.do(chromedp.Focus(selector), chromedp.KeyEvent(key))
	}
	for _, text := range []string{"one", "two"} {
		p.say(text)
		p.until(idle + ` && document.querySelector("#title").textContent === "` + text + `"`)
		press("#actions summary", kb.Enter)
		press("#rename", kb.Enter)
		p.visible("#name-dialog")
		p.do(chromedp.KeyEvent(kb.Escape))
		p.until(`!document.querySelector("#name-dialog").open`)
		p.placed()
		press("#open-status", kb.Enter)
		p.visible("#status")
		p.do(chromedp.KeyEvent(kb.Escape))
		p.until(`!document.querySelector("#status").open`)
		p.want(`document.activeElement.id`, "open-status")
		press("#delete", kb.Enter)
		p.visible("#removal")
		press("#confirm-delete", kb.Enter)
		p.until(`!document.querySelector("#removal").open && !document.querySelector("#delete").checkVisibility()`)
		p.placed()
	}
	p.say("!hang")
	press("#stop", kb.Enter)
	p.until(idle)
	p.placed() // the button is hidden
	press("#to-rooms", kb.Enter)
	p.until(`document.querySelectorAll("#room-side a").length > 10 && document.activeElement.id === "room"`)
	names := strings.Fields(p.eval(`[...document.querySelectorAll("#room-side a")].map((a) => a.hash.slice(1)).join(" ")`))
	for _, name := range append(names[1:], names[0]) { // the first one is open
		press("#room-side a[href='#"+name+"']", kb.Enter)
		p.until(`location.hash === "#` + name + `" && document.activeElement.id === "room" && !document.querySelector("#room").textContent.includes("Loading")`)
		p.placed()
	}
	p.eval(`location.hash = "people/" + encodeURIComponent("irc:bob")`)
	p.until(`document.querySelector("#room h1")?.textContent === "Person" && !document.querySelector("#room").textContent.includes("Loading")`)
	danger := `[...document.querySelectorAll("#room button")].filter((b) => b.textContent.trim().startsWith("Erase")).at(-1)`
	p.until(danger)
	p.eval(danger + `.focus()`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`document.querySelector("#room dialog[open]")`)
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until(`!document.querySelector("#room dialog[open]")`)
	p.until(`document.activeElement === ` + danger)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`document.querySelector("#room dialog[open]")`)
	p.eval(`document.querySelector("#room dialog .danger").focus()`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`!document.querySelector("#room dialog[open]")`)
	p.placed()
}

// roomNotifies has the browser notify of requests: only if the person wants it, only of what is new, and only while the page is hidden.
func roomNotifies(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := room(t, b, d, "today", "Today")
	p.eval(`(() => {
		window.shown = [];
		window.Notification = class { constructor(title, options) { this.options = options; shown.push(title + "|" + options.body); window.last = this; } close() {} };
		Notification.requestPermission = async () => window.answer;
		Notification.permission = "granted";
		window.answer = "denied";
	})()`)
	p.click(`.section-head .button`)
	p.until(`document.querySelector(".trouble")?.textContent.includes("does not allow")`)
	p.eval(`window.answer = "granted"`)
	p.click(`.section-head .button`)
	p.until(`document.querySelector(".section-head .button").textContent.includes("Stop notifying")`)
	w := d.dial("web", "main")
	w.send("a1", "!ask ls")
	w.await(func(f gateway.ServerFrame) bool { return len(f.Approvals) == 1 })
	p.until(`document.querySelectorAll("#room .lines a").length === 1`)
	p.want(`shown.length`, "0") // the page is looked at
	p.eval(`Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true })`)
	v := d.dial("web", "other")
	v.send("b1", "!ask ls")
	p.until(`shown.length === 1`)
	p.want(`shown[0]`, "Flynn waits for you|demo asks to use shell")
	p.eval(`last.onclick()`)
	p.until(`location.hash === "#/web/other"`)
}

// looks takes pictures of what is open, light, dark and on a phone, and has axe look at each.
func (p pageDriver) looks(name string) {
	p.t.Helper()
	for _, look := range []struct {
		name, scheme string
		wide, high   int
	}{{"light", "light", 1180, 820}, {"dark", "dark", 1180, 820}, {"phone", "light", 390, 844}} {
		p.light(look.scheme)
		p.size(look.wide, look.high)
		p.want(`document.documentElement.scrollWidth <= innerWidth`, "true")
		if look.name == "dark" {
			p.axe(name+", dark", "color-contrast", "link-in-text-block") // all that differs from the light
		} else {
			p.axe(name + ", " + look.name)
		}
		p.shot(name + "-" + look.name)
	}
	for _, scheme := range []string{"light", "dark"} {
		p.light(scheme)
		for _, wide := range []int{390, 1280, 3840} {
			p.size(wide, 844)
			if found := p.eval(fits); found != "" {
				p.t.Errorf("%s, %s, %d wide: %s", name, scheme, wide, found)
			}
			p.want(`document.getAnimations().filter((a) => a.playState === "running" && a.effect.getComputedTiming().duration > 1).length`, "0")
		}
	}
	p.light("light")
	p.size(1180, 820)
}

// fits names what is wider than the window or cut off, and boxes of wide tables that the keyboard cannot scroll.
const fits = `(() => {
	const wrong = [];
	const say = (what, node) => wrong.push(what + ": " + node.outerHTML.slice(0, 160));
	if (document.documentElement.scrollWidth > innerWidth) say("the page scrolls to the side", document.body);
	const scrolls = (node) => /auto|scroll/.test(getComputedStyle(node).overflowX);
	for (const node of document.querySelectorAll("body *")) {
		if (!node.checkVisibility({ visibilityProperty: true }) || node.closest(".hidden, svg, .skip, thead")) continue;
		const box = node.getBoundingClientRect();
		const style = getComputedStyle(node);
		const wide = node.scrollWidth > node.clientWidth + 1;
		if (wide && node.querySelector("table") && scrolls(node) && (node.tabIndex < 0 || !(node.ariaLabel || node.getAttribute("aria-labelledby")))) {
			say("the keyboard cannot scroll", node);
		}
		const text = [...node.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
		if (!text || !box.width) continue;
		if (wide && /hidden|clip/.test(style.overflowX) && !(style.textOverflow === "ellipsis" && (node.title || node.closest("[title], summary, li")))) say("is cut off", node);
		let inside = node.parentElement;
		while (inside && !scrolls(inside)) inside = inside.parentElement;
		const range = document.createRange();
		range.selectNodeContents(node);
		if (range.getBoundingClientRect().right > innerWidth + 1 && !(inside && inside !== document.body && inside.getBoundingClientRect().right <= innerWidth + 1 && inside.tabIndex >= 0)
			&& style.textOverflow !== "ellipsis") say("leaves the window", node);
	}
	return wrong.slice(0, 5).join("\n");
})()`

// size gives the page a size.
func (p pageDriver) size(wide, high int) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(int64(wide), int64(high)))
	p.until(fmt.Sprintf("innerWidth === %d", wide))
}

// axe has the accessibility checker look at the page, for everything or by some of its rules.
func (p pageDriver) axe(what string, rules ...string) {
	p.t.Helper()
	file, err := os.Open("testdata/axe.min.js.gz")
	if err != nil {
		p.fatal("%v", err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		p.fatal("%v", err)
	}
	script, err := io.ReadAll(unpacked)
	if err != nil {
		p.fatal("%v", err)
	}
	if p.eval(`typeof axe`) != "object" {
		ctx, cancel := context.WithCancel(p.ctx)
		defer cancel()
		if _, err := chromedp.Run(ctx, chromedp.Evaluate[any](string(script)+";0")); err != nil {
			p.fatal("load axe: %v", err)
		}
	}
	only := ""
	if len(rules) > 0 {
		only = `, runOnly: ["` + strings.Join(rules, `", "`) + `"]`
	}
	// Only experimental rules need what axe would load beforehand.
	found := p.eval(`axe.run(document, {resultTypes: ["violations"], preload: false` + only + `}).then((r) => r.violations.map((v) => v.id + ": " + v.help + " " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200)).join(" | ")).join("\n"))`)
	if found != "" {
		p.t.Errorf("%s: axe finds\n%s", what, found)
	}
}

// TestConsoleFiles keeps the console small and made of small parts: no file of its own has 300 lines, and what a browser transfers for the page
// and any one of its rooms is compressed below the budget. Rooms are loaded when they are opened.
func TestConsoleFiles(t *testing.T) {
	const most, budget = 300, 150_000
	imports := regexp.MustCompile(`(?:from |import |import\()"(\.[^"]+)"`)
	packed, needs, later := map[string]int{}, map[string][]string{}, map[string][]string{}
	err := fs.WalkDir(console, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(console, name)
		if err != nil {
			return err
		}
		if lines := bytes.Count(text, []byte("\n")); !strings.HasPrefix(name, "vendor/") && name != "texts.js" && lines >= most {
			t.Errorf("%s has %d lines", name, lines)
		}
		var buf bytes.Buffer
		w := gzip.NewWriter(&buf)
		_, _ = w.Write(text)
		_ = w.Close()
		packed[name] = buf.Len()
		for _, m := range imports.FindAllSubmatch(text, -1) {
			to := path.Join(path.Dir(name), string(m[1]))
			if bytes.HasPrefix(m[0], []byte("import(")) {
				later[name] = append(later[name], to)
			} else {
				needs[name] = append(needs[name], to)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	page := map[string]bool{}
	var load func(into map[string]bool, name string)
	load = func(into map[string]bool, name string) {
		if !into[name] {
			into[name] = true
			for _, to := range needs[name] {
				load(into, to)
			}
		}
	}
	size := func(loaded map[string]bool) (sum int) {
		for name := range loaded {
			sum += packed[name]
		}
		return sum
	}
	for name := range packed { // the page names the others that are not modules
		if ext := path.Ext(name); name == "app.js" || path.Dir(name) == "." && ext != ".js" && ext != "" {
			load(page, name)
		}
	}
	largest, with := size(page), "no room"
	for name := range page {
		for _, room := range later[name] {
			all := maps.Clone(page)
			load(all, room)
			if n := size(all); n > largest {
				largest, with = n, room
			}
		}
	}
	if largest > budget {
		t.Errorf("the console with %s has %d bytes compressed, and may have %d", with, largest, budget)
	}
	t.Logf("%d bytes compressed, and %d with %s", size(page), largest, with)
}

// TestVendored holds the libraries of others at the versions that were read.
func TestVendored(t *testing.T) {
	list, err := fs.ReadFile(console, "vendor/VERSIONS")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"VERSIONS": true, "LICENSES": true}
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		text, err := fs.ReadFile(console, "vendor/"+fields[1])
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != fields[0] {
			t.Errorf("%s is not what %s says", fields[1], lines.Text())
		}
		known[fields[1]] = true
	}
	all, err := fs.ReadDir(console, "vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if !known[f.Name()] {
			t.Errorf("vendor/%s has no line in VERSIONS", f.Name())
		}
	}
}

// TestTexts finds texts that are used and not there, and those that nothing uses.
func TestTexts(t *testing.T) {
	all, err := fs.ReadFile(console, "texts.js")
	if err != nil {
		t.Fatal(err)
	}
	there, used := map[string]bool{}, map[string]bool{}
	section := ""
	for line := range strings.Lines(string(all)) {
		if m := regexp.MustCompile(`^  (\w+): \{`).FindStringSubmatch(line); m != nil {
			section = m[1]
		} else if m := regexp.MustCompile(`^    (\w+): ["` + "`" + `]`).FindStringSubmatch(line); m != nil {
			there[section+"."+m[1]] = true
		}
	}
	computed := map[string]bool{} // rooms whose texts have computed names, t("room." + x)
	err = fs.WalkDir(console, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".js" || name == "texts.js" || strings.HasPrefix(name, "vendor/") {
			return err
		}
		text, err := fs.ReadFile(console, name)
		for _, m := range regexp.MustCompile(`\bt\("(\w+\.\w+)"(\s*\+)?`).FindAllStringSubmatch(string(text), -1) {
			if m[2] == "" {
				used[m[1]] = true
			}
		}
		for name := range there { // chosen by a condition
			if strings.Contains(string(text), `"`+name+`"`) {
				used[name] = true
			}
		}
		for _, m := range regexp.MustCompile(`\bn\("(\w+\.\w+)"`).FindAllStringSubmatch(string(text), -1) {
			used[m[1]+"One"], used[m[1]+"Other"] = true, true
		}
		for _, m := range regexp.MustCompile(`\bt\("(\w+)\."?`).FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(string(text), `t("`+m[1]+`." +`) {
				computed[m[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rooms, err := fs.ReadFile(console, "rooms/index.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`name: "(\w+)", group: "(\w+)"`).FindAllStringSubmatch(string(rooms), -1) {
		used[m[1]+".title"], used["shell."+m[2]] = true, true
	}
	for name := range used {
		if !there[name] {
			t.Errorf("texts.js lacks %s", name)
		}
	}
	for name := range there {
		section, _, _ := strings.Cut(name, ".")
		if !used[name] && !computed[section] && section != "shell" {
			t.Errorf("nothing uses the text %s", name)
		}
	}
}
