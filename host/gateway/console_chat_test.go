package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/sandbox/snapshot"
)

// TestChat tries what the chat has beside the messages, in a real browser.
func TestChat(t *testing.T) {
	t.Parallel()
	b := browser(t)
	for _, tt := range []struct {
		name string
		run  func(*testing.T, context.Context)
	}{
		{"files", chatFiles},
		{"search", chatSearches},
		{"names and exports", chatActions},
		{"forks and edits", chatForks},
		{"forks say what stays", chatForksSay},
		{"undoes changes of files", chatUndo},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, b) })
	}
}

// drops gives the page a file, as a drop or a paste does.
const drops = `(() => {
	const data = new DataTransfer();
	data.items.add(new File([%q], %q));
	const target = document.querySelector(%q);
	target.dispatchEvent(%s);
	return "";
})()`

func (p pageDriver) drop(name, text string) {
	p.t.Helper()
	p.eval(fmt.Sprintf(drops, text, name, "#chat", `new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })`))
}

func (p pageDriver) paste(name, text string) {
	p.t.Helper()
	p.eval(fmt.Sprintf(drops, text, name, "#draft", `new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })`))
}

const bubbles = `[...document.querySelectorAll(".message.user")].map((n) => n.querySelector(".bubble").textContent + [...n.querySelectorAll(".files li")].map((f) => "+" + f.textContent).join("")).join("|")`

func chatFiles(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	p.want(`document.querySelector("#record").checkVisibility()`, "true")
	p.want(`document.querySelector("#camera-input").accept + document.querySelector("#camera-input").getAttribute("capture")`, "image/*environment")
	p.drop("a/../b\u202e.txt", "dropped")
	p.paste("shot.png", "pasted")
	p.until(`document.querySelectorAll("#files li").length === 2 && !document.querySelector("#files").textContent.includes("sending")`)
	p.want(`document.querySelector("#files li .char").textContent`, "U+202E")
	p.click("#files li:first-child button")
	p.until(`document.querySelectorAll("#files li").length === 1`)
	p.say("") // a file needs no text
	p.until(idle + ` && document.querySelectorAll(".message.user").length === 1`)
	p.want(`document.querySelector("#files").checkVisibility()`, "false")
	p.drop("two.txt", "second")
	p.say("hello")
	p.until(idle + ` && document.querySelectorAll(".message.agent").length === 2`)
	p.want(`document.querySelectorAll(".message.user .files li").length`, "2")
	p.reload()
	p.until(`document.querySelectorAll(".message.user .files li").length === 2`)
	p.drop("huge.bin", string(make([]byte, 2<<20))) // more than the host takes
	p.until(`document.querySelector("#notice").textContent.includes("huge.bin was not sent")`)
	p.want(`document.querySelectorAll("#files li").length`, "0")
	p.drop("drafted", "x")
	p.looks("chat-files")
}

func chatSearches(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	p.say("a <b>needle</b> in the hay")
	p.until(idle + ` && document.querySelectorAll(".message.agent").length === 1`)
	p.click("#new")
	p.say("something else")
	p.until(idle + ` && document.querySelectorAll(".message.agent").length === 1`)
	p.do(chromedp.SendKeys("#search", "needle"))
	p.until(`document.querySelector("#hits mark")?.textContent === "needle"`) // before that, the hits of its beginning
	p.want(`document.querySelectorAll("#hits b").length`, "0")
	p.want(`document.querySelector("#lists").checkVisibility()`, "false")
	p.looks("chat-search")
	p.click("#hits li:first-child button")
	p.until(`document.querySelector(".bubble")?.textContent.includes("needle")`)
	p.do(chromedp.SendKeys("#search", " nobody said this"))
	p.until(`document.querySelector("#found").textContent === "Nobody has said that."`)
	p.eval(`(() => { const f = document.querySelector("#search"); f.value = ""; f.dispatchEvent(new Event("input")); })()`)
	p.until(`document.querySelector("#lists").checkVisibility()`)
}

func chatActions(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	p.want(`document.querySelector("#actions").checkVisibility()`, "false")
	p.say("hello")
	p.until(idle + ` && document.querySelectorAll(".message.agent").length === 1`)
	p.visible("#actions")
	p.do(chromedp.Click("#actions summary"))
	p.looks("chat-actions")
	p.click("#rename")
	p.visible("#name-dialog")
	p.do(chromedp.SendKeys("#new-name", "My <i>talk</i>\r"))
	p.until(`document.querySelector("#title").textContent === "My <i>talk</i>"`)
	p.until(`document.querySelector("#conversations .name").textContent === "My <i>talk</i>"`)
	p.eval(`(() => { window.saved = []; HTMLAnchorElement.prototype.click = function () { window.saved.push([this.download, this.href]); }; })()`)
	p.do(chromedp.Click("#actions summary"))
	p.click("#export-markdown")
	p.until(`window.saved.length === 1`)
	p.want(`window.saved[0][0]`, "My _i_talk__i_.md")
}

// chatUndo: the last answer that used a tool has a button, which shows what an undo changes and does it once that is confirmed.
func chatUndo(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	plan := snapshot.Plan{
		Code: "1ABCDE", Turn: "t1", Restored: []string{"<i>a</i>", "b\u202egnp.exe"}, Removed: []string{strings.Repeat("long", 60) + "/new"}, Changed: []string{"mine"},
		Count: snapshot.Count{Restored: 300, Removed: 1, Changed: 1},
	}
	d.backend.Undoable = plan
	p := visit(t, b, d)
	p.say("hello")
	p.until(idle + ` && document.querySelectorAll(".fork").length === 1`)
	p.want(`document.querySelectorAll(".undo").length`, "0")
	for range 2 {
		p.say("!run ls")
		p.until(idle + ` && document.querySelectorAll(".fork").length === document.querySelectorAll(".bubble").length`)
		p.want(`document.querySelectorAll(".undo").length`, "1")
	}
	p.want(`[...document.querySelectorAll(".after")].at(-1).querySelector(".undo") !== null`, "true")
	p.reload()
	p.visible(".undo")
	p.want(`document.querySelectorAll(".undo").length`, "1")
	p.do(chromedp.Focus(".undo"), chromedp.SendKeys(".undo", "\r"))
	p.until(`document.querySelectorAll("#undo-files li").length === 5`) // with an ellipsis
	p.want(`document.querySelector("#undo-files").textContent.includes("<i>a</i>") && document.querySelector("#undo-files .char").textContent`, "U+202E")
	p.want(`document.activeElement.id`, "leave-files")
	p.looks("chat-undo")
	p.do(chromedp.SendKeys("#leave-files", "\r"))
	p.until(`!document.querySelector("#undo").open`)
	if got := d.backend.Undone(); len(got) > 0 {
		t.Fatalf("undone: %+v", got)
	}
	for _, overwrite := range []bool{false, true} {
		p.click(".undo")
		p.visible("#confirm-undo")
		if overwrite {
			p.click("#undo-overwrite")
		}
		p.click("#confirm-undo")
		p.until(`document.querySelector("#undo-what").textContent.startsWith("Undone.") && document.querySelector("#confirm-undo").hidden`)
		p.want(`document.querySelector("#undo-files").textContent.includes("undone, too")`, fmt.Sprint(overwrite))
		p.click("#leave-files")
	}
	if diff := cmp.Diff([]gateway.Undo{{Code: "1ABCDE"}, {Code: "1ABCDE", Overwrite: true}}, d.backend.Undone()); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
}

func chatForks(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	p := visit(t, b, d)
	for _, text := range []string{"one", "two"} {
		p.say(text)
		p.until(idle + ` && [...document.querySelectorAll(".bubble")].at(-1)?.textContent === "` + text + `" && document.querySelectorAll(".fork").length === document.querySelectorAll(".bubble").length`)
	}
	before := p.eval("location.hash")
	p.click(".fork") // after the first answer
	p.until(`location.hash !== ` + fmt.Sprintf("%q", before) + ` && document.querySelectorAll(".bubble").length === 1`)
	p.want(bubbles, "one")
	p.eval("history.back()")
	p.until(`document.querySelectorAll(".bubble").length === 2 && document.querySelectorAll(".edit").length === 2`)
	p.eval(`[...document.querySelectorAll(".edit")].at(-1).click()`)
	p.until(`document.querySelector("#draft").value === "two" && document.querySelectorAll(".bubble").length === 1`)
	p.eval(`(() => { document.querySelector("#draft").value = ""; })()`)
	p.say("two, better")
	p.until(idle + ` && document.querySelectorAll(".bubble").length === 2`)
	p.want(bubbles, "one|two, better")
	p.eval("history.back()")
	p.until(bubbles + ` === "one|two"`)
}
