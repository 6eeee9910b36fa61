package host

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/sdk/need"
)

var (
	pagesSteps = flag.Int("pages-steps", 15, "what happens in TestPagesCatchUp, a step at a time")
	pagesSeed  = flag.Uint64("pages-seed", 0, "seed of what happens in TestPagesCatchUp; 0 takes one from the clock")
)

// TestPagesCatchUp is a property of the console: whatever two people do in three pages, whatever the host answers, and who is away for a
// while, the host too, every page that is back shows what the store has, each thing once and in order, without being loaded again.
func TestPagesCatchUp(t *testing.T) {
	seed := *pagesSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("go test ./host -run TestPagesCatchUp -pages-seed %d -pages-steps %d", seed, *pagesSteps)
	w := newWorld(t, seed)
	for n := 0; n < *pagesSteps; {
		for range 1 + w.rand.IntN(3) { // between two looks
			w.step(n)
			n++
		}
		w.agree()
		if t.Failed() {
			return
		}
	}
}

// world is a host, and the pages of its people: two of the owner of the machine, and one of a member who is signed in.
type world struct {
	callers
	t     *testing.T
	rand  *rand.Rand
	dir   string
	text  string // of flynn.toml
	home  *cliHome
	pages []*worldPage
	log   []string
	words int
}

// worldPage is a page that somebody looks at.
type worldPage struct {
	w      *world
	name   string
	ctx    context.Context
	by     gateway.Caller
	cut    bool // it has no network
	frozen bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 18)), dir: t.TempDir()}
	w.text = fmt.Sprintf(`
[store]
dir = %q
[gateway]
listen = %q
[routing]
default_agent = "main"
[models.default]
provider = "demo"
[agent_configs.main]
tool_profile = "coding"
[access]
members = ["tg:bob"]
rate_per_minute = 1000
conversation_rate_per_minute = 1000
[channels.tg]
plugin = "telegram"
trust_senders = true
access = "pair"
`, filepath.Join(w.dir, "s"), need.Address(t))
	browser := gatewaytest.Browser(t, chromedp.WindowSize(1180, 820))
	w.start()
	owner, bob := gateway.Caller{Sender: "web:owner", Role: "owner"}, gateway.Caller{Sender: "tg:bob", Role: "member", SignIn: "bob's"}
	his := w.signIn("bob").Token
	mine, theirs := gatewaytest.Page(t, browser), gatewaytest.Page(t, browser)
	w.open("the first tab", mine, w.home.token(), owner)
	w.open("the second tab", mine, w.home.token(), owner)
	w.open("the tab of bob", theirs, his, bob)
	return w
}

// start starts the host on its store.
func (w *world) start() {
	w.home = runCLI(w.t, w.dir, w.text)
	w.callers = callers{w.t, w.home.host, strings.TrimSuffix(w.home.host.gateway.URL(), "/#token="+w.home.token())}
}

func (w *world) open(name string, browser context.Context, token string, by gateway.Caller) {
	w.t.Helper()
	tab, closed := chromedp.NewContext(browser)
	w.t.Cleanup(closed)
	if err := chromedp.Do(tab); err != nil { // the tab lives as long as the context of the first call
		w.t.Fatal(err)
	}
	p := &worldPage{w: w, name: name, ctx: tab, by: by}
	p.do(chromedp.Navigate(gateway.PageURL(w.base, token)))
	p.until(`document.querySelector("#connection.connected")`)
	p.eval(`window.first = true`) // gone with a reload
	p.setFrozen(false)
	w.pages = append(w.pages, p)
}

func (p *worldPage) do(steps ...chromedp.Action[chromedp.Void]) {
	p.w.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.w.t.Fatalf("%s: %v\nafter %s", p.name, err, p.w.past())
	}
}

func (p *worldPage) eval(expr string) string {
	p.w.t.Helper()
	out, err := gatewaytest.Eval(p.ctx, expr)
	if err != nil {
		p.w.t.Fatalf("%s: %v\nafter %s", p.name, err, p.w.past())
	}
	return out
}

func (p *worldPage) until(expr string) {
	p.w.t.Helper()
	if err := gatewaytest.Until(p.ctx, expr); err != nil {
		p.w.t.Fatalf("%s: %v\nafter %s", p.name, err, p.w.past())
	}
}

// emulateNetwork is a command that the library has dropped, because no other one changes navigator.onLine too.
var emulateNetwork = cdp.Command[network, cdp.Empty]{Method: "Network.emulateNetworkConditions"}

type network struct {
	Offline  bool `json:"offline"`
	Latency  int  `json:"latency"`
	Download int  `json:"downloadThroughput"`
	Upload   int  `json:"uploadThroughput"`
}

func (p *worldPage) setNetwork(there bool) {
	p.w.t.Helper()
	if _, err := chromedp.Call(p.ctx, emulateNetwork, network{Offline: !there, Download: -1, Upload: -1}); err != nil {
		p.w.t.Fatal(err)
	}
	p.cut = !there
}

func (p *worldPage) setFrozen(frozen bool) {
	p.w.t.Helper()
	state := page.SetWebLifecycleStateParams{State: "active"}
	if frozen {
		state.State = "frozen"
	}
	if _, err := chromedp.Call(p.ctx, page.SetWebLifecycleState, state); err != nil {
		p.w.t.Fatal(err)
	}
	// A page that wakes in this browser stays hidden, as if nobody looked at it, unless it is made to be looked at.
	if _, err := chromedp.Call(p.ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: !frozen}); err != nil {
		p.w.t.Fatal(err)
	}
	p.frozen = frozen
}

// past is what has happened, for a person who looks into it.
func (w *world) past() string { return strings.Join(w.log, "\n      ") }

func (w *world) word() string {
	w.words++
	return fmt.Sprintf("word%d", w.words)
}

// step lets something happen.
func (w *world) step(n int) {
	p := w.pages[w.rand.IntN(len(w.pages))]
	moves := []struct {
		name string
		do   func(p *worldPage) bool // false if it cannot be now
	}{
		{"says something", func(p *worldPage) bool { return p.say(w.word()) }},
		{"asks for a long answer", func(p *worldPage) bool { return p.say("!stream 5" + strings.Repeat(" "+w.word(), 40)) }},
		{"asks for a tool", func(p *worldPage) bool { return p.say("!sh echo " + w.word()) }},
		{"answers a request", (*worldPage).answer},
		{"renames", (*worldPage).rename},
		{"deletes", (*worldPage).remove},
		{"begins a conversation", func(p *worldPage) bool { return p.click(`document.querySelector("#new")`) }},
		{"opens a conversation", func(p *worldPage) bool {
			return p.click(fmt.Sprintf(`((l) => l[%d %% l.length])([...document.querySelectorAll("#conversations button")])`, w.rand.IntN(1000)))
		}},
		{"loses the network", func(p *worldPage) bool { p.setNetwork(false); return true }},
		{"has the network again", func(p *worldPage) bool {
			if !p.cut {
				return false
			}
			p.setNetwork(true)
			return true
		}},
		{"sleeps", func(p *worldPage) bool { p.setFrozen(true); return true }},
		{"the host starts again", func(*worldPage) bool { w.home.end(); w.start(); return true }},
		{"the configuration changes", func(*worldPage) bool { return w.reconfigure() }},
	}
	for {
		m := moves[w.rand.IntN(len(moves))]
		if p.frozen && !strings.HasPrefix(m.name, "the ") {
			p.setFrozen(false)
			w.log = append(w.log, fmt.Sprintf("%d: %s wakes", n, p.name))
		}
		w.log = append(w.log, fmt.Sprintf("%d: %s: %s", n, p.name, m.name))
		if m.do(p) {
			return
		}
		w.log = w.log[:len(w.log)-1]
	}
}

func (p *worldPage) click(node string) bool {
	p.w.t.Helper()
	return p.eval(`((n) => { if (!n || n.disabled || !n.checkVisibility()) return false; n.click(); return true; })(`+node+`)`) == "true"
}

func (p *worldPage) say(text string) bool {
	p.w.t.Helper()
	p.w.log[len(p.w.log)-1] += " " + fmt.Sprintf("%.30q", text)
	return p.eval(fmt.Sprintf(`((f) => { if (!f.checkVisibility()) return false; f.value = %q; document.querySelector("#composer").requestSubmit(); return true; })(document.querySelector("#draft"))`, text)) == "true"
}

func (p *worldPage) answer() bool {
	button := []string{"approve", "deny"}[p.w.rand.IntN(2)]
	p.w.log[len(p.w.log)-1] += " with " + button
	return !p.cut && p.click(`document.querySelector(".approval .`+button+`")`)
}

func (p *worldPage) rename() bool {
	if p.cut || !p.click(`document.querySelector("#actions summary")`) || !p.click(`document.querySelector("#rename")`) {
		return false
	}
	p.eval(fmt.Sprintf(`(() => { document.querySelector("#new-name").value = %q; document.querySelector("#naming").requestSubmit(); })()`, "called "+p.w.word()))
	return true
}

func (p *worldPage) remove() bool {
	if p.cut || !p.click(`document.querySelector("#delete")`) {
		return false
	}
	p.click(`document.querySelector("#confirm-delete")`)
	p.until(`!document.querySelector("#removal").open || !document.querySelector("#removal-trouble").hidden`)
	p.eval(`document.querySelector("#removal").close()`)
	return true
}

// reconfigure changes flynn.toml, and waits until that is in force.
func (w *world) reconfigure() bool {
	agent := "[agent_configs.other]\n"
	if strings.Contains(w.text, agent) {
		w.text = strings.ReplaceAll(w.text, agent, "")
	} else {
		w.text += agent
	}
	before := w.h.current.Load().Number
	if err := os.WriteFile(filepath.Join(w.dir, "flynn.toml"), []byte(w.text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the new configuration is in force", func() bool { return w.h.current.Load().Number != before })
	return true
}

// agree waits until nothing runs but what waits for a person, and then for every page to show what the store has.
func (w *world) agree() {
	w.t.Helper()
	for _, p := range w.pages {
		if p.frozen {
			p.setFrozen(false)
		}
		if p.cut {
			p.setNetwork(true)
		}
	}
	w.log = append(w.log, "everybody is back")
	for _, p := range w.pages {
		var wrong string
		for deadline := time.Now().Add(45 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if wrong = p.differs(); wrong == "" {
				break
			}
			if time.Now().After(deadline) {
				w.t.Fatalf("%s (%s) shows something else than the store has:\n%s\nafter %s", p.name, p.eval("document.visibilityState"), wrong, w.past())
			}
		}
		if p.eval(`window.first`) != "true" {
			w.t.Fatalf("%s was loaded again after %s", p.name, w.past())
		}
	}
}

// seen is what a page shows.
type seen struct {
	Conversation, Title string
	Lines, List         []string
	Approvals           []string
	Unsent              int
}

const seenNow = `JSON.stringify({
	Conversation: decodeURIComponent(location.hash),
	Title: document.querySelector("#title").textContent,
	Lines: [...document.querySelectorAll("#transcript > :not(.after)")].map((n) => n.matches(".user") ? "you: " + n.querySelector(".bubble").textContent :
		n.matches(".call") ? "call: " + n.querySelector(".gist").textContent + " " + n.querySelector(".mark").className.replace("mark ", "") :
		(n.matches(".failed") ? "failed: " : "agent: ") + n.textContent.trim()),
	List: [...document.querySelectorAll("#conversations button")].map((n) => n.dataset.key + " " + n.querySelector(".name").textContent + (n.querySelector(".sub").textContent.includes("working") ? " works" : "")),
	Approvals: [...document.querySelectorAll(".approval")].map((n) => n.dataset.approval),
	Unsent: document.querySelectorAll("[data-state=sending]").length,
})`

// differs says in which way a page does not show what the store has.
func (p *worldPage) differs() string {
	p.w.t.Helper()
	p.click(`document.querySelector("#show-earlier")`)
	var got seen
	if err := json.Unmarshal([]byte(p.eval(seenNow)), &got); err != nil {
		p.w.t.Fatal(err)
	}
	want := p.wanted(got.Conversation)
	if got.Conversation == want.Conversation && got.Title == want.Title && got.Unsent == 0 && slices.Equal(got.Lines, want.Lines) &&
		slices.Equal(got.List, want.List) && slices.Equal(got.Approvals, want.Approvals) {
		return ""
	}
	return fmt.Sprintf("it shows    %+v\nthere is    %+v", got, want)
}

// wanted is what the store has for the person of a page who looks at a conversation.
func (p *worldPage) wanted(hash string) seen {
	p.w.t.Helper()
	b, ctx := p.w.h.backend(), p.w.t.Context()
	must := func(err error) {
		if err != nil {
			p.w.t.Fatal(err)
		}
	}
	want := seen{Conversation: hash, Title: "New conversation", Lines: []string{}, List: []string{}, Approvals: []string{}}
	channel, id, _ := strings.Cut(strings.TrimPrefix(hash, "#/"), "/")
	entries, err := b.Conversations.History(ctx, channel, id, 500)
	must(err)
	for _, e := range entries {
		want.Lines = append(want.Lines, line(e))
	}
	filter := gateway.ConversationFilter{From: gateway.FromPeople}
	if !p.by.Owner() {
		filter.Of = p.by.Sender
	}
	list, err := b.Conversations.Conversations(ctx, filter)
	must(err)
	for _, c := range list.Items {
		if !p.by.Owner() && !p.by.Writes(c.Channel, c.ID) {
			continue
		}
		title := c.Title
		if title == "" {
			title = c.ID
		}
		if c.Channel == channel && c.ID == id {
			want.Title = title
		}
		name := c.Channel + ":" + c.ID + " " + title
		if c.Running {
			name += " works"
		}
		want.List = append(want.List, name)
	}
	waiting, err := b.Approvals.Approvals(ctx)
	must(err)
	for _, a := range waiting {
		if p.by.Owner() || a.Requester == p.by.Sender {
			want.Approvals = append(want.Approvals, a.ID)
		}
	}
	return want
}

func line(e gateway.Entry) string {
	switch {
	case e.From == gateway.FromUser:
		return "you: " + e.Text
	case e.Call != nil:
		var args struct{ Command string }
		_ = json.Unmarshal(e.Call.Args, &args)
		state := "running"
		switch {
		case e.Call.Done && e.IsError:
			state = "failed"
		case e.Call.Done:
			state = "done"
		case e.Call.Approval != "":
			state = "waiting"
		}
		return "call: " + args.Command + " " + state
	case e.IsError:
		return "failed: " + strings.TrimSpace(e.Text)
	}
	return "agent: " + strings.TrimSpace(e.Text)
}
