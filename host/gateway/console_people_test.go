package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/sdk/plugintest/rude"
)

// TestPeople opens the room People, and the console as people who are signed in, in a real browser.
func TestPeople(t *testing.T) {
	t.Parallel()
	b := browser(t)
	for _, tt := range []struct {
		name string
		run  func(*testing.T, context.Context)
	}{
		{"the room", roomPeople},
		{"one person", roomPerson},
		{"signing in by a link", pageSignsIn},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, b) })
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func roomPeople(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	for _, v := range rude.Texts() {
		if len(v.Text) < 300 {
			d.backend.Knock(gateway.AccessEntry{Sender: message.NewSenderKey("irc", v.Name), Name: v.Text, State: "denied", Identity: "proved"})
		}
	}
	d.backend.Knock(gateway.AccessEntry{Sender: "irc:eve\u202e", Name: "Eve <b>", State: "open", Code: "ABCD-EFGH", Identity: "claimed", Expires: noon})
	d.backend.Knock(gateway.AccessEntry{Sender: "irc:bob", State: "paired", Role: "guest", Effective: "guest", Identity: "proved", Decided: noon, By: "web:owner"})
	p := room(t, b, d, "people", "People")
	p.until(`document.querySelectorAll("#room tbody tr").length > 10`)
	p.until(`document.querySelector("#room .lines b")?.textContent.includes("U+202E")`)
	p.want(`document.querySelectorAll("#room img, #room script").length`, "0")
	p.looks("people")
	p.eval(`[...document.querySelectorAll("#room button")].find((b) => b.textContent === "Let in").focus()`)
	p.do(chromedp.KeyEvent("\r"))
	p.until(`document.querySelector("#room .room-empty")?.textContent === "Nobody waits."`)
	p.do(chromedp.SendKeys(`#room input[type=search]`, "BOB"))
	p.until(`document.querySelectorAll("#room tbody tr").length === 1`)
	p.eval(`document.querySelector("#room tbody a").focus()`)
	p.do(chromedp.KeyEvent("\r"))
	p.until(`document.querySelector("#room h2")?.textContent.includes("irc:bob")`)
	p.want(`location.hash`, "#people/irc%3Abob")
}

func roomPerson(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	d.backend.Knock(gateway.AccessEntry{Sender: "irc:bob", Name: strings.Repeat("long ", 40), State: "paired", Role: "guest", Effective: "guest", Identity: "proved", Decided: noon})
	d.backend.Admit("irc:bob", "guest", "CODE")
	if _, err := d.backend.SignIn(t.Context(), "CODE"); err != nil {
		t.Fatal(err)
	}
	p := room(t, b, d, "people/irc%3Abob", "Person")
	press := func(word string) {
		t.Helper()
		p.until(`[...document.querySelectorAll("#room dialog[open] .danger, #room .room-column > * button")].some((b) => b.textContent === "` + word + `" && !b.disabled)`)
		p.eval(`[...document.querySelectorAll("#room dialog[open] .danger, #room .room-column > * button")].findLast((b) => b.textContent === "` + word + `" && !b.disabled).focus()`)
		p.do(chromedp.KeyEvent("\r"))
	}
	p.until(`document.querySelector("#room .facts")?.textContent.includes("The platform proves who this is.")`)
	p.until(`document.querySelector("#room .facts").textContent.includes("2 conversations, 3 notes, 4 files")`)
	p.looks("person")
	press("Make a member")
	p.until(`[...document.querySelectorAll("#room button")].some((b) => b.textContent === "Make a guest")`)
	press("Sign out")
	p.until(`document.querySelector("#room .room-empty")?.textContent.startsWith("Not signed in")`)
	press("Block")
	p.until(`document.querySelector("#room dialog[open]")?.textContent.includes("access.blocked")`)
	p.axe("the question")
	press("Block")
	p.until(`document.querySelector("#room h2 .badge")?.textContent === "blocked"`)
	press("Unblock")
	p.until(`document.querySelector("#room h2 .badge")?.textContent === "guest"`)
	p.eval(`(() => { window.saved = ""; HTMLAnchorElement.prototype.click = function () { window.saved = this.download + " " + this.href.slice(0, 5); }; })()`)
	press("Download everything")
	p.until(`saved === "flynn-export.zip blob:"`)
	press("Erase everything")
	p.until(`document.querySelector("#room dialog[open]")?.textContent.includes("deleted for good")`)
	press("Erase everything")
	p.until(`document.querySelector("#room .room-notice.good")?.textContent === "Erased: 2 conversations, 3 notes, 4 files."`)
}

// pageSignsIn signs a guest in by a link, who then has his own conversations, and nothing else.
func pageSignsIn(t *testing.T, b context.Context) {
	d := open(t, gatewaytest.Demo)
	d.backend.Admit("irc:bob", "guest", "CODE-OF-BOB")
	d.backend.Knock(gateway.AccessEntry{Sender: "irc:bob", State: "paired", Role: "guest", Effective: "guest", Identity: "proved", Decided: noon})
	p := visit(t, b, d) // as the owner
	goTo := func(fragment string) {
		t.Helper()
		p.do(chromedp.Navigate("about:blank")) // a page that is open only gets the fragment
		p.do(chromedp.Navigate(d.base() + "/#" + fragment))
	}
	goTo("sign-in=WRONG")
	p.until(`document.querySelector("#room h1")?.textContent === "Sign in at the console"`)
	p.want(`location.hash`, "")
	p.click(`#room .button`)
	p.until(`document.querySelector("#room [role=alert]")?.textContent.includes("not good any more")`)
	goTo("sign-in=CODE-OF-BOB")
	p.until(`document.querySelector("#room .button")?.checkVisibility()`)
	p.axe("a link")
	if got := d.backend.SignIns(""); len(got) != 0 {
		t.Errorf("the link is used before the person says so: %+v", got)
	}
	p.click(`#room .button`)
	p.until(`document.querySelector("#person")?.textContent.includes("irc:bob")`)
	p.connected()
	p.until(`decodeURIComponent(location.hash).startsWith("#/console/irc:bob~")`)
	p.want(`sessionStorage.getItem("flynn.token")`, "null")
	p.want(`[...document.querySelectorAll("#open-status, [data-halt]")].some((n) => n.checkVisibility())`, "false")
	p.do(chromedp.SendKeys("#draft", "hello from bob\r"))
	p.until(lastReply + `?.includes("hello from bob")`)
	p.do(chromedp.SendKeys("#draft", "!ask ls\r"))
	p.until(`document.querySelector(".approval")?.textContent.includes("This waits for an owner.")`)
	p.want(`document.querySelectorAll(".approval .buttons").length`, "0")
	p.looks("guest")
	p.click("#stop")
	p.until(idle)
	p.click("#new")
	p.until(`document.querySelectorAll("#conversations button").length === 1`)
	p.click("#to-rooms")
	p.until(`document.querySelector("#room h2")?.textContent.includes("irc:bob")`)
	p.want(`[...document.querySelectorAll("#room-side a")].map((a) => a.textContent).join()`, "You,Previews")
	p.want(`[...document.querySelectorAll("#room .button")].map((b) => b.textContent).join()`, "Sign out,Download everything")
	p.looks("you")
	p.eval(`location.hash = "people"`)
	p.until(`document.querySelector("#room h1")?.textContent === "There is no such page."`)
	p.eval(`location.hash = "/web/main"`)
	p.until(`document.querySelector("#connection").textContent === "Not yours"`)
	p.do(chromedp.Reload())
	p.until(`document.querySelector("#person")?.textContent.includes("irc:bob")`)
	p.click(`#person button`)
	p.until(`document.querySelector("#sign-in")?.checkVisibility() && !document.querySelector("#person").textContent`)
	p.want(`localStorage.length + sessionStorage.length > 0 ? Object.keys(localStorage).join() : ""`, "")
	if got := d.backend.SignIns(""); len(got) != 0 {
		t.Errorf("bob is still signed in: %+v", got)
	}
}
