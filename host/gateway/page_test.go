package gateway_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

// TestPage runs the chat page in a real browser.
func TestPage(t *testing.T) {
	t.Parallel()
	b := browser(t)
	tests := []struct {
		name string
		run  func(*testing.T, context.Context)
	}{
		{"streams an answer", pageStreams},
		{"offers three things to try", pageIntroduces},
		{"keeps the token out of the address", pageHidesToken},
		{"shows tool calls and asks", pageToolCalls},
		{"an approval hides nothing", pageApprovalHidesNothing},
		{"an approval fits a phone", pageApprovalFitsAPhone},
		{"lets strangers in", pagePairings},
		{"gives each conversation an address", pageAddresses},
		{"keeps the keyboard's place", pageKeepsTheKeyboard},
		{"stops", pageStops},
		{"has the kill switch", pageHalts},
		{"reconnects without duplicates", pageReconnects},
		{"says when a send fails", pageSendFails},
		{"keeps the draft", pageDraft},
		{"switches conversations", pageConversations},
		{"deletes a conversation after a question", pageDeletes},
		{"is inert", pageIsInert},
		{"markdown", pageMarkdown},
		{"takes linear time", pageIsLinear},
		{"shows a mebibyte on demand", pageShowsTheRest},
		{"is the same in every window", pagesAgree},
		{"says why", pageSaysWhy},
		{"looks", pageLooks},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, b) })
	}
}

const (
	lastReply = `[...document.querySelectorAll(".message.agent")].at(-1)?.textContent`
	idle      = `document.querySelector("#working").hidden && !document.querySelector(".streaming")`
)

func pageStreams(t *testing.T, b context.Context) {
	release := make(chan struct{})
	d := open(t, func(_ context.Context, turn *gatewaytest.Turn, text string) (string, error) {
		turn.Say("Half of the ")
		<-release
		turn.Say("answer.")
		return "Half of the answer.", nil
	})
	p := visit(t, b, d)
	p.say("hello")
	p.until(`document.querySelector(".streaming")?.textContent.includes("Half of the")`)
	p.want(`document.querySelector("#stop").hidden`, "false")
	close(release)
	p.until(idle)
	p.want(lastReply, "Half of the answer.")
	p.want(`document.querySelectorAll(".message.user").length`, "1")
	p.want(`document.querySelector(".message.user").dataset.state`, "sent")
	p.want(`document.querySelector("#polite").textContent`, "Half of the answer.")
}

func pageIntroduces(t *testing.T, b context.Context) {
	p := visit(t, b, open(t, gatewaytest.Demo))
	p.visible("#intro-try button")
	p.want(`document.querySelector("#intro-notice").textContent`, "This is a test.")
	p.want(`[...document.querySelectorAll("#intro-try b")].map((b) => b.textContent).join("|")`, "hello|!ask make|/status")
	p.shot("empty")
	p.click("#intro-try li:first-child button")
	p.until(idle + ` && document.querySelectorAll(".message.agent").length === 1`)
	p.want(`document.querySelector(".bubble").textContent`, "hello")
	p.want(`document.querySelector("#empty").checkVisibility()`, "false")
}

func pageHalts(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	p.click("#open-status")
	p.click("#halt")
	p.until(`document.querySelector("#status-body").textContent.includes("Everything is halted")`)
	p.want(`document.querySelector("#halt").textContent`, "Resume")
	if d.backend.Status(t.Context()).Halt == nil {
		t.Error("the host was not told")
	}
	p.click("#halt")
	p.until(`document.querySelector("#halt").textContent === "Halt everything"`)
	if d.backend.Status(t.Context()).Halt != nil {
		t.Error("the host was not told to go on")
	}
}

func pageHidesToken(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	p.want(`location.href`, d.base()+"/#/web/main")
	p.reload() // from sessionStorage
	p.eval(`sessionStorage.clear()`)
	p.do(chromedp.Reload())
	p.visible("#sign-in") // and nothing else to do
	p.want(`document.querySelector("#composer").checkVisibility()`, "false")
	p.shot("sign-in")
	for _, typed := range []string{"wrong", d.token(), "http://127.0.0.1:7351/#token=" + d.token()} {
		p.eval(`sessionStorage.clear()`)
		p.do(chromedp.Reload())
		p.visible("#sign-in")
		p.do(chromedp.SendKeys("#token", typed+"\r"))
		if typed == "wrong" {
			p.until(`document.querySelector("#notice")?.textContent.includes("flynn open")`)
			p.visible("#sign-in")
			continue
		}
		p.connected()
		p.visible("#composer")
		p.want(`location.href.includes("token")`, "false")
	}
}

// Each conversation has an address: the back button goes back, a link opens it, and a window without one opens the newest.
func pageAddresses(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	shows := func(p pageDriver, text string) {
		t.Helper()
		p.until(idle + ` && [...document.querySelectorAll(".bubble")].map((n) => n.textContent).join("|") === ` + jsString(text))
	}
	p.say("first")
	shows(p, "first")
	p.click("#new")
	p.connected()
	p.say("second")
	shows(p, "second")
	p.want(`location.hash !== "#/web/main" && location.hash.startsWith("#/web/")`, "true")
	link := p.eval(`location.href`)
	p.eval(`history.back()`)
	shows(p, "first")
	p.want(`location.hash`, "#/web/main")
	p.eval(`history.forward()`)
	shows(p, "second")
	p.reload()
	shows(p, "second")
	p.click("#conversations li:last-child button")
	shows(p, "first")

	newest := visit(t, b, d) // a window of its own, without an address
	shows(newest, "second")
	newest.want(`location.href`, link)
	newest.do(chromedp.Navigate(d.base() + "/#/web/main"))
	shows(newest, "first")
	newest.do(chromedp.Navigate(d.base() + "/#/%zz/x")) // somebody has typed it
	shows(newest, "first")
}

// The keyboard keeps its place when the button that it was on goes.
func pageKeepsTheKeyboard(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	for _, button := range []string{".approve", ".deny", ".session"} {
		p.say("!ask ls")
		p.visible(".approval " + button + ":enabled")
		p.do(chromedp.Focus(".approval " + button))
		p.eval(`document.activeElement.click()`) // as Enter does
		p.until(`!document.querySelector(".approval") && ` + idle)
		p.want(`document.activeElement.id`, "draft")
	}
}

func pageToolCalls(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)

	p.say("!box ls -la")
	p.until(idle + ` && document.querySelectorAll(".call").length === 1`)
	p.want(`document.querySelector(".call .verdict").textContent`, "in sandbox default")
	p.want(`document.querySelector(".call .gist").textContent`, "ls -la")
	p.want(`document.querySelector(".call .output pre").textContent`, "ran: ls -la")
	p.want(`document.querySelector(".call").open`, "true")

	p.say("!deny curl evil.example")
	p.until(idle + ` && document.querySelectorAll(".call").length === 2`)
	p.want(`[...document.querySelectorAll(".call")].at(-1).querySelector(".verdict").textContent`, "denied")
	p.want(`[...document.querySelectorAll(".call")].at(-1).querySelector(".reasons").textContent`, "no-curl: curl evil.example is not allowed")

	p.say("!ask rm -rf build")
	p.visible(".approval")
	p.want(`document.querySelector(".approval pre").textContent`, "rm -rf build")
	p.want(`document.querySelector(".approval h2").textContent`, "Allow shell to run on the host?")
	p.click(".approval .approve")
	p.until(`!document.querySelector(".approval") && ` + idle)
	p.want(lastReply, "The command ran.")

	p.say("!ask ls")
	p.until(`[...document.querySelectorAll(".approval dd")].some((n) => n.textContent === "this call until next month")`)
	p.click(".approval .session")
	p.until(`!document.querySelector(".approval") && ` + idle)
	if grants, _ := d.backend.Grants(t.Context()); len(grants) != 1 || grants[0].Scope != "session" {
		t.Errorf("grants are %+v", grants)
	}

	p.say("!ask bad thing")
	p.visible(".approval")
	p.want(`document.querySelector(".approval .standing")`, "null")
	p.want(`document.querySelector(".approval").textContent.includes("bad can run any program")`, "true")
	p.want(`document.querySelector(".approval .session").textContent`, "Session (like a shell)")
	p.want(`document.querySelector(".approval .unshown").textContent`, "Not shown, but followed: Badfile (bad)")
	p.want(`document.querySelector(".approval .limits").textContent`, "Limits not held on this machine: memory_limit")
	p.click(".approval .deny")
	p.until(`!document.querySelector(".approval") && ` + idle)

	p.say("!ask reboot")
	p.click(".approval .deny")
	p.until(`!document.querySelector(".approval") && ` + idle)
	p.want(lastReply, "The command was not run.")

	// The page shows the same live and after a reload.
	text := `[...document.querySelectorAll("#transcript > *")].map((n) => n.textContent).join("\n")`
	live := p.eval(text)
	p.reload()
	p.until(`document.querySelectorAll(".call").length === 6`)
	p.want(text, live)
}

func pageApprovalHidesNothing(t *testing.T, b context.Context) {
	long := "echo " + strings.Repeat("0123456789 ", 400) + "; rm -rf ~"
	spoof := "ls \u202e hs.tnecnoni/ \u200bx\x1b[2K"
	d := open(t, func(ctx context.Context, turn *gatewaytest.Turn, text string) (string, error) {
		command := map[string]string{"long": long, "spoof": spoof}[text]
		_, err := turn.Run(ctx, gatewaytest.Call{Tool: "shell", Args: map[string]any{"command": command, "timeout": 5}, Decision: "ask", Where: "host"})
		return "done", err
	})
	p := visit(t, b, d)
	p.say("long")
	p.visible(".approval")
	p.want(`document.querySelector(".approval pre").textContent`, long)
	p.want(`document.querySelector(".approval .size").textContent.startsWith("2 lines, 4,4")`, "true") // the other argument has one
	p.want(`(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)(document.querySelector(".approval .asked"))`, "true")
	p.want(`(({overflowX, overflowY}) => overflowX + overflowY)(getComputedStyle(document.querySelector(".approval .asked")))`, "autoauto")
	p.click(".approval .deny")
	p.until(idle)
	p.say("spoof")
	p.visible(".approval")
	p.want(`document.querySelector(".approval pre").textContent`, "ls U+202E hs.tnecnoni/ U+200BxU+001B[2K")
	p.click(".approval .deny")
	p.until(idle)
}

// pageApprovalFitsAPhone: whatever is asked for, a person sees the beginning of the command and all buttons at once, without touching anything.
func pageApprovalFitsAPhone(t *testing.T, b context.Context) {
	commands := append(rude.Commands(), rude.Value{Name: "words", Text: "bad " + strings.Repeat("make test && ", 80) + "true"},
		rude.Value{Name: "one_word", Text: strings.Repeat("x", 20_000)}, rude.Value{Name: "angles", Text: "bad a && b <c >d"})
	d := open(t, func(ctx context.Context, turn *gatewaytest.Turn, text string) (string, error) {
		i, err := strconv.Atoi(text)
		if err != nil {
			return "", err
		}
		_, err = turn.Run(ctx, gatewaytest.Call{
			Tool: "shell.exec", Args: map[string]any{"command": commands[i].Text, "cwd": "some/folder", "timeout": 5000}, Decision: "ask", Where: "host",
			Reasons: []string{"guard-tools: the command is none of those that are known", strings.Repeat("because ", 60)},
		})
		return "done", err
	})
	p := visit(t, b, d)
	p.do(chromedp.EmulateViewport(390, 844))
	for i, v := range commands {
		p.say(strconv.Itoa(i))
		p.visible(".approval .approve:enabled")
		p.until(`(() => {
			const seen = (n) => { const r = n.getBoundingClientRect(); return r.top >= 0 && r.left >= 0 && r.bottom <= innerHeight && r.right <= innerWidth && r.height > 0; };
			const reached = (n) => { const r = n.getBoundingClientRect(); return n.contains(document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2)); };
			const card = document.querySelector(".approval");
			return seen(card.querySelector(".asked")) && card.firstElementChild === card.querySelector(".asked") && [...card.querySelectorAll("button")].every((n) => seen(n) && reached(n));
		})()`)
		p.want(`document.querySelector(".asked").scrollTop`, "0")
		if text := p.eval(`document.querySelector(".asked pre").textContent`); i > 0 && strings.Contains(v.Text, "&&") && !strings.Contains(text, "&&") {
			t.Errorf("%s is shown as %q", v.Name, text)
		}
		p.want(`document.querySelector(".approval details").open`, "false")
		if v.Name == "words" || v.Name == "and" {
			p.shot("phone-approval-" + v.Name)
		}
		p.eval(`document.querySelector(".approval details").open = true`)
		p.want(`[...document.querySelectorAll(".approval dd")].some((n) => n.textContent.startsWith("guard-tools"))`, "true")
		p.click(".approval .deny")
		p.until(`!document.querySelector(".approval") && ` + idle)
	}
}

func pageStops(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	p.say("!hang")
	p.until(`document.querySelector(".streaming")?.textContent.includes("Thinking")`)
	p.click("#stop")
	p.until(idle)
	p.want(lastReply, "the turn was stopped")
}

// A restart in the middle: what was typed meanwhile is answered once, and nothing shows twice.
func pageReconnects(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo, again(t))
	p := visit(t, b, d)
	p.say("one")
	p.until(idle + ` && document.querySelectorAll(".message.agent").length === 1`)
	d.stop()
	p.visible("#connection:not(.connected)")
	p.say("two")
	p.until(`document.querySelectorAll(".message.user[data-state=sending]").length === 1`)
	d.start()
	p.connected()
	p.until(idle + ` && document.querySelectorAll(".message.agent").length === 2`)
	want := `one|You said: one|two|You said: two`
	p.want(`[...document.querySelectorAll(".message")].map((n) => (n.querySelector(".bubble") ?? n).textContent).join("|")`, want)
	p.want(`document.querySelectorAll("[data-state=sending]").length`, "0")
	if n := d.backend.Accepted(); n != 2 {
		t.Errorf("accepted %d messages, want 2", n)
	}
}

func pageSendFails(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	d.backend.FailSubmit(fmt.Errorf("the disk is full"))
	p.say("precious")
	p.until(`document.querySelector(".message.user")?.dataset.state === "failed"`)
	p.want(`document.querySelector("#notice").textContent`, "the disk is full")
	d.backend.FailSubmit(nil)
	p.click(".message.user .link")
	p.until(idle + ` && document.querySelectorAll(".message.agent").length === 1`)
	p.want(lastReply, "You said: precious")
	p.want(`document.querySelectorAll(".message.user").length`, "1")
}

func pageDraft(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	p.do(chromedp.SendKeys("#draft", "not yet"))
	p.reload()
	p.want(`document.querySelector("#draft").value`, "not yet")
}

func pageConversations(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	p.say("first talk")
	p.until(idle + ` && document.querySelectorAll("#conversations li").length === 1`)
	p.do(chromedp.SendKeys("#draft", "kept here"))
	p.click("#new")
	p.until(`document.querySelector("#transcript").childElementCount === 0 && document.querySelector("#draft").value === ""`)
	p.connected()
	p.say("second talk")
	p.until(idle + ` && document.querySelectorAll("#conversations li").length === 2`)
	p.want(lastReply, "You said: second talk")
	p.click(`[data-key='web:main']`)
	p.until(lastReply + ` === "You said: first talk"`)
	p.want(`document.querySelector("#draft").value`, "kept here")
	p.want(`document.querySelector("#title").textContent`, "first talk")
}

func pageDeletes(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	p.want(`document.querySelector("#delete").hidden`, "true") // nothing was said yet
	p.say("keep me")
	p.until(idle + ` && document.querySelectorAll("#conversations li").length === 1`)
	p.click("#new")
	p.until(`document.querySelector("#transcript").childElementCount === 0`)
	p.connected()
	p.say("<b>away with me")
	p.until(idle + ` && document.querySelectorAll("#conversations li").length === 2`)
	p.click("#delete")
	p.visible("#removal")
	p.want(`document.querySelector("#removal-name").textContent`, "<b>away with me")
	p.until(`["this conversation (1 answer) for good", "sandbox", "workspace stay", "logs"].every((s) => document.querySelector("#removal-what").textContent.includes(s))`)
	p.want(`document.activeElement.id`, "keep")
	p.click("#keep")
	p.until(`!document.querySelector("#removal").open`)
	p.want(`document.querySelectorAll("#conversations li").length`, "2")

	p.do(chromedp.SendKeys("#draft", "half a thought"))
	p.click("#delete")
	d.backend.FailDelete(fmt.Errorf("the disk is full"))
	p.click("#confirm-delete")
	p.visible("#removal-trouble")
	p.want(`document.querySelector("#removal-trouble").textContent`, "Not deleted: the disk is full")
	d.backend.FailDelete(nil)
	p.click("#confirm-delete")
	p.until(`!document.querySelector("#removal").open && document.querySelectorAll("#conversations li").length === 1`)
	p.connected()
	p.want(`document.querySelector("#transcript").childElementCount`, "0")
	p.want(`document.querySelector("#draft").value`, "")
	p.want(`document.querySelector("#delete").hidden`, "true")

	p.click(`[data-key='web:main']`)
	p.until(lastReply + ` === "You said: keep me"`)
	p.say("!hang")
	p.until(`document.querySelector("#conversations .sub").textContent.includes("working")`)
	p.click("#delete")
	p.until(`document.querySelector("#removal-what").textContent.includes("is stopped")`)
	p.click("#confirm-delete")
	p.until(`document.querySelectorAll("#conversations li").length === 0`)
}

func pageIsInert(t *testing.T, b context.Context) {
	attacks := []string{
		`<script>window.pwned=1</script>`,
		`<img src=x onerror="window.pwned=1">`,
		`[click](javascript:window.pwned=1)`,
		`[click](JaVaScRiPt&colon;window.pwned=1)`,
		"[click](java\tscript:window.pwned=1)",
		`[click](data:text/html,<script>window.pwned=1</script>)`,
		`[x](https://ok.example/" onmouseover="window.pwned=1)`,
		`![x](https://evil.example/beacon.png?secret)`,
		`<svg/onload=window.pwned=1>`,
		"```html\n<script>window.pwned=1</script>\n```",
		"`<b>` **<i>bold</i>** </div></main>",
		`<iframe srcdoc="<script>parent.pwned=1</script>"></iframe>`,
	}
	all := strings.Join(attacks, "\n\n")
	d := open(t, func(ctx context.Context, turn *gatewaytest.Turn, _ string) (string, error) {
		for _, decision := range []string{"run", "ask"} {
			_, err := turn.Run(ctx, gatewaytest.Call{
				Tool: attacks[1], Args: map[string]string{"command": all, attacks[1]: attacks[0]}, Decision: decision, Where: attacks[8],
				Reasons: attacks, Output: all,
			})
			if err != nil {
				return "", err
			}
		}
		turn.Say(all)
		return all, nil
	})
	d.backend.Info = gateway.Status{Warnings: attacks, Agents: []gateway.AgentStatus{{Name: attacks[1]}}}
	p := visit(t, b, d)
	p.say(attacks[1])
	p.click(".approval .approve")
	p.until(idle)
	p.click("#open-status")
	p.visible("#status-body .warning")
	p.want(`window.pwned`, "undefined")
	p.want(`document.querySelectorAll("#transcript :is(script, img, svg, iframe, style, form, input), dialog :is(script, img, svg, iframe)").length`, "0")
	p.want(`[...document.querySelectorAll("#transcript a")].every((a) => /^https?:$/.test(a.protocol) && a.rel.includes("noopener") && a.getAttributeNames().every((n) => !n.startsWith("on")))`, "true")
	p.want(`document.querySelector(".message.user .bubble").textContent`, attacks[1])
	// The page's policy holds even for code that is inside already.
	p.want(`(() => { try { document.body.innerHTML = "<b>x</b>"; return "set"; } catch (e) { return e.name; } })()`, "TypeError")
}

func pageMarkdown(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	tests := []struct{ name, in, want string }{
		{"paragraphs", "one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"},
		{"marks", "**b** *i* _j_ ~~s~~ `c`", "<p><strong>b</strong> <em>i</em> <em>j</em> <s>s</s> <code>c</code></p>"},
		{"not marks", "2 * 3 * 4 and snake_case_name", "<p>2 * 3 * 4 and snake_case_name</p>"},
		{"nested", "**a `b` *c***", "<p><strong>a <code>b</code> *c</strong>*</p>"},
		{"html is text", "<b>x</b> & y", "<p>&lt;b&gt;x&lt;/b&gt; &amp; y</p>"},
		{"list", "- a\n- b\n  - c\n- d", "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>"},
		{"ordered", "3. a\n4. b", `<ol start="3"><li>a</li><li>b</li></ol>`},
		{"list after text", "see:\n- a", "<p>see:</p><ul><li>a</li></ul>"},
		{"quote", "> a\n> b", "<blockquote><p>a\nb</p></blockquote>"},
		{"heading", "# T", "<h3>T</h3>"},
		{"rule", "a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"},
		{"table", "| a | b |\n|---|---|\n| 1 | 2 |", `<div class="table" tabindex="0" role="group" aria-label="Table"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table></div>`},
		{"open fence", "```go\nx < 1", `<figure class="code"><figcaption><span>go</span><button type="button" class="copy">Copy</button></figcaption><pre tabindex="0"><code>x &lt; 1</code></pre></figure>`},
		{"link", "[a](https://x.example/b_(c))", `<p><a href="https://x.example/b_(c)" rel="noopener noreferrer nofollow" target="_blank" title="https://x.example/b_(c)">a</a></p>`},
		{"bare link", "at https://x.example/y.", `<p>at <a href="https://x.example/y" rel="noopener noreferrer nofollow" target="_blank" title="https://x.example/y">https://x.example/y</a>.</p>`},
		{"refused link", "[a](file:///etc/passwd)", "<p>[a](file:///etc/passwd)</p>"},
		{"escape", `\*a\*`, "<p>*a*</p>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := pageDriver{t, p.ctx}
			p.want(fmt.Sprintf(`import("/chat/markdown.js").then(({markdown}) => { const d = document.createElement("div"); d.append(markdown(%s)); return d.innerHTML; })`, jsString(tt.in)), tt.want)
		})
	}
}

// pageIsLinear renders 64 KiB of lines that make a careless parser slow, and paragraphs as long as are looked at for marks,
// and counts the characters that are looked at. Regular expressions are not counted, so there must be none.
// pageShowsTheRest renders texts that are too long for a page. Nothing of them is lost: the rest is there when it is asked for.
func pageShowsTheRest(t *testing.T, b context.Context) {
	p := visit(t, b, open(t, gatewaytest.Demo))
	for _, piece := range []string{"word ", "- a\n", "# a\n", "| a | b |\n| --- | --- |\n", "**a** ", "> a\n", "```\na\n```\n"} {
		p.want(`import("/chat/markdown.js").then(async ({markdown}) => {
			const all = (text) => text.split("a").length + text.split("word").length;
			const text = `+strconv.Quote(piece)+`.repeat(1048576 / `+strconv.Itoa(len(piece))+`);
			const d = document.createElement("div");
			d.append(markdown(text));
			document.body.append(d);
			const few = d.querySelectorAll("*").length < 5000;
			for (const x of d.querySelectorAll("details")) {
				const opened = new Promise((done) => x.addEventListener("toggle", done, { once: true }));
				x.open = true;
				await opened;
			}
			for (const x of d.querySelectorAll("summary, figcaption")) x.remove();
			d.remove();
			return few + " " + (all(d.textContent) >= all(text));
		})`, "true true")
	}
}

func pageIsLinear(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	for part := range 3 {
		out := p.eval(fmt.Sprintf(linear, part))
		t.Logf("renders, characters looked at for each that is there at worst, and where: %s", out)
		var renders int
		var worst float64
		if _, err := fmt.Sscan(out, &renders, &worst); err != nil || renders < 80 {
			t.Fatalf("the page says %q: %v", out, err)
		}
		if worst > 60 { // six levels of lists look at each line a few times
			t.Errorf("at worst each character is looked at %.1f times: %s", worst, out)
		}
	}
}

const linear = `Promise.all([import("/chat/markdown.js"), import("/lib/dom.js")]).then(([{markdown}, dom]) => {
		const lines = (prefixes, fillers, size) => prefixes.flatMap((p) => fillers.map((f) => p + f.repeat(size / f.length) + "b\u2028c"));
		const blocks = lines(["", "# a", "#", "\u0060\u0060\u0060", "---", "- ", "1. ", "> ", "|", "a|b\n"],
			[" ", "\t", "a", "#", "-", "- ", "|-", "\u2028", "\n", "\n- ", "\n> ", "\n  - ", "\n|", "\na"], 65000);
		const marks = lines(["", "[a](", "[", "**a", "*a", "_a", "~~a", "\u0060a", "https://", "\\"],
			[" ", "a", "\u0060", "\u0060a", "*", "*a", "**a", "_a", "~~a", "[", "[a](", "(", "https://", "!", "h", "\\"], 19000);
		const outputs = lines(["", "\u001b[", "\u001b]"], [" ", "a", "\n", "\r", "\u001b", "\u001b[", "\u001b[1", "\u001b]a", "\r\n"], 8000);
		let steps = 0;
		const cost = {
			charAt: () => 1, charCodeAt: () => 1, codePointAt: () => 1,
			startsWith: (s, r, [x]) => x.length, endsWith: (s, r, [x]) => x.length,
			includes: (s) => s.length, lastIndexOf: (s, r, [x, from]) => from - r + x.length, indexOf: (s, r, [x, from = 0]) => (r < 0 ? s.length : r) - from + x.length,
			slice: (s, r) => r.length, trim: (s) => s.length, trimStart: (s) => s.length, trimEnd: (s) => s.length,
			split: (s) => s.length, replaceAll: (s) => s.length,
		};
		const kept = new Map();
		const patch = (proto, name, f) => { kept.set([proto, name], proto[name]); proto[name] = f; };
		for (const name of Object.getOwnPropertyNames(String.prototype)) {
			const native = String.prototype[name];
			if (typeof native !== "function" || ["constructor", "toString", "valueOf", "padStart", "toUpperCase", Symbol.iterator, "at", "repeat", "concat", "toLowerCase"].includes(name)) continue;
			patch(String.prototype, name, function (...args) {
				if (!cost[name]) throw new Error(name + " is not counted");
				const r = native.apply(this, args);
				steps += cost[name](this, r, args);
				return r;
			});
		}
		for (const name of ["exec", "test", Symbol.match, Symbol.matchAll, Symbol.replace, Symbol.search, Symbol.split]) {
			patch(RegExp.prototype, name, () => { throw new Error("a regular expression"); });
		}
		let worst = 0, which = "", renders = 0;
		try {
			for (const [f, texts] of [[[markdown, blocks]], [[markdown, marks]], [[dom.plain, outputs], [dom.revealed, outputs], [(x) => dom.oneLine(x, 300), outputs]]][%d]) {
				for (const text of texts) {
					steps = 0;
					f(text);
					renders++;
					if (steps / text.length > worst) {
						worst = steps / text.length;
						which = JSON.stringify([f.name, text.slice(0, 20), text.length]);
					}
				}
			}
		} finally {
			for (const [[proto, name], native] of kept) proto[name] = native;
		}
		return [renders, worst.toFixed(1), which].join(" ");
	})`

func jsString(s string) string { return fmt.Sprintf("%q", s) }

// pageLooks fills the page with one of everything and, if FLYNN_TEST_SHOTS names a folder, takes pictures of it in both
// lights and at the width of a phone. It fails when anything is wider than the screen.
func pageLooks(t *testing.T, b context.Context) {
	d := open(t, showcase)
	d.backend.Info = showcaseStatus()
	p := visit(t, b, d)
	p.shot("empty-light")
	p.say("Why does the build fail since yesterday?")
	p.until(idle + ` && document.querySelectorAll(".call").length === 3`)
	p.say("Clean up and build again, please")
	p.visible(".approval .approve:enabled")
	screens := []struct {
		name          string
		width, height int64
	}{{"wide", 1180, 820}, {"phone", 390, 844}}
	for _, light := range []string{"light", "dark"} {
		for _, screen := range screens {
			p.light(light)
			p.do(chromedp.EmulateViewport(screen.width, screen.height))
			p.want(`document.documentElement.scrollWidth <= innerWidth && document.querySelector("#scroll").scrollWidth <= document.querySelector("#scroll").clientWidth`, "true")
			name := screen.name + "-" + light
			p.shot(name + "-approval")
			p.eval(`document.querySelector("#scroll").scrollTop = 0`)
			p.until(`document.querySelector("#scroll").scrollTop === 0 && !document.querySelector("#latest").hidden`)
			p.shot(name + "-top")
			p.eval(`document.querySelector("#open-status").click()`)
			p.visible("#status-body .warning")
			p.shot(name + "-status")
			p.click("#close-status")
			if screen.name == "phone" {
				p.click("#open-side")
				p.visible("#close-side")
				p.until(`getComputedStyle(document.querySelector("#side")).translate === "0px"`)
				p.shot(name + "-side")
				p.click("#close-side")
			}
			p.eval(`document.querySelector("#scroll").scrollTop = 1e6`)
			p.until(`document.querySelector("#latest").hidden`)
		}
	}
}

// light makes the page believe that the person prefers light or dark, and no motion.
func (p pageDriver) light(name string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	if err != nil {
		p.fatal("emulate media: %v", err)
	}
}

func showcase(ctx context.Context, t *gatewaytest.Turn, text string) (string, error) {
	if strings.HasPrefix(text, "Clean") {
		t.Interim("Two steps. First I remove the stale cache, then I build.")
		_, err := t.Run(ctx, gatewaytest.Call{
			Tool: "shell", Args: map[string]any{"command": "rm -rf .cache/build &&\n  make clean all 2>&1 | tee build.log", "timeout_seconds": 120}, Decision: "ask", Where: "host",
			Reasons: []string{"approve: shell commands on the host wait for a person"},
		})
		return "Done.", err
	}
	t.Interim("I will look at the log first.")
	calls := []gatewaytest.Call{
		{Tool: "shell", Args: map[string]string{"command": "git log --oneline -3 -- go.mod"}, Decision: "run_in_sandbox", Where: "default", Output: "4f1c2ab go.mod: raise the TLS library\n91d03ce Lay the floor plan\n0a7be11 First commit\n"},
		{Tool: "read_file", Args: map[string]string{"path": "build.log"}, Decision: "run", Where: "host", Output: strings.Repeat("compile pkg/module: ok\n", 40)},
		{Tool: "web_fetch", Args: map[string]string{"url": "http://169.254.169.254/latest/meta-data/"}, Decision: "deny", Reasons: []string{"no-metadata: link-local addresses are not for agents"}},
	}
	for _, c := range calls {
		if _, err := t.Run(ctx, c); err != nil {
			return "", err
		}
	}
	reply := "The library `crypto/tlsx` was raised to **v2**, and v2 dropped `Dial`. Three places call it:\n\n" +
		"1. `client/dial.go`, for the first connection\n2. `client/retry.go`\n3. the test beside it\n\n" +
		"The change is small:\n\n```go\nconn, err := tlsx.DialContext(ctx, \"tcp\", addr)\nif err != nil {\n\treturn fmt.Errorf(\"dial %s: %w\", addr, err)\n}\n```\n\n" +
		"| File | Lines |\n| --- | --- |\n| client/dial.go | 12 |\n| client/retry.go | 4 |\n\nThe notes are at https://example.com/tlsx/v2. Shall I make the change?"
	t.Say(reply)
	return reply, nil
}

func showcaseStatus() gateway.Status {
	return gateway.Status{
		Version: "0.1.0", Generation: 3, Started: time.Now().Add(-3 * time.Hour),
		Agents: []gateway.AgentStatus{
			{Name: "main", Kind: "chat", Model: "default", Tools: "coding"},
			{Name: "researcher", Kind: "chat", Model: "fast", Tools: "minimal", Sandbox: "default"},
		},
		Channels: []gateway.ChannelStatus{
			{Name: "irc", Plugin: "irc", State: "connected", OK: true},
			{Name: "telegram", Plugin: "telegram", State: "quarantined", Detail: "4 crashes in 60 s; see flynn plugin logs telegram"},
		},
		Policies: []gateway.PolicyStatus{{Name: "no-metadata", Kinds: []string{"tool"}, Digest: "sha256:9f2b54f1c0aa77", State: "in force", OK: true}},
		Sandbox:  gateway.SandboxStatus{Enabled: true, Detail: "cannot reach the Docker engine"},
		Warnings: []string{"Docker is not available: tools run on the host with approval."},
	}
}
