package gateway_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/admin/settings"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/backend"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
)

// TestSettingsRooms opens settings, channels and doctor in a real browser; flynn.toml is a real file.
func TestSettingsRooms(t *testing.T) {
	t.Parallel()
	b := browser(t)
	for _, tt := range []struct {
		name string
		run  func(*testing.T, context.Context)
	}{
		{"settings", roomSettings},
		{"settings on a phone", roomSettingsPhone},
		{"lists of tables", roomTables},
		{"channels", roomChannels},
		{"plugins", roomPlugins},
		{"doctor", roomDoctor},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(t, b) })
	}
}

const rudeFile = "# Ann's.\r\nsystem_prompt = \"be <b>kind</b> \u202e\\n\" # as ever\r\n[agent_configs.main]\r\n[agent_configs.helper]\r\n[routing]\r\ndefault_agent = \"main\"\r\n" +
	"[routing.senders]\r\n\"terminal:<img src=x> \\\"q\\\" 'x' . \u202e\" = \"main\"\r\n# token = \"sk-comment\"\r\n[store]\r\ndir = \"data\"\r\n"

// withSettings has a fixture serve a real flynn.toml.
func withSettings(t *testing.T, text string, fake gatewaytest.Settings, plugins ...gatewaytest.Plugins) (d *fixture, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "flynn.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	holder, err := config.NewHolder(path, func(string) string { return "" }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	editor := edit.InHost(holder, edit.EditorConfig{Getenv: func(string) string { return "" }})
	s := settings.Settings{
		Holder: holder, Editor: editor, Log: slog.New(slog.DiscardHandler),
		SameChannel: func(a, b config.Channel) bool { return false }, SameTools: func(a, b config.ToolProvider) bool { return false },
	}
	d = open(t, gatewaytest.Demo)
	d.stop()
	d.front.Configurations, d.front.Secrets, d.front.Reloads = s, s, backend.Reload{Holder: holder, Editor: editor}
	d.front.Channels, d.front.Doctor = fake, fake
	for _, p := range plugins {
		d.front.Plugins, d.front.Installed = p, p
	}
	d.start()
	return d, path
}

// typed puts a text into the field of a key, as typing does.
func (p pageDriver) typed(selector, text string) {
	p.t.Helper()
	p.until(`document.querySelector(` + quote(selector) + `)`)
	p.eval(`(() => { const f = document.querySelector(` + quote(selector) + `); f.focus(); f.value = ` + quote(text) + `; f.dispatchEvent(new Event("input", { bubbles: true })); return "" })()`)
}

func quote(s string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`", "${", "\\${").Replace(s) + "`"
}

func roomSettings(t *testing.T, b context.Context) {
	d, path := withSettings(t, rudeFile, gatewaytest.Settings{})
	p := room(t, b, d, "settings", "Settings")
	p.until(`document.querySelector("[data-key='system_prompt'] textarea")`)
	p.looks("settings")
	p.want(`document.querySelectorAll("#room img, #room b").length`, "0")

	// A wrong value is told at its key while it is typed, and nothing is written.
	p.eval(`location.hash = "settings/sandbox"`)
	p.typed(`[data-key="sandbox.memory_limit"] input`, "lots")
	p.until(`document.querySelector("[data-key='sandbox.memory_limit'] .trouble")?.textContent.includes("not a size")`)
	p.typed(`[data-key="sandbox.memory_limit"] input`, "256m")
	p.until(`!document.querySelector("[data-key='sandbox.memory_limit'] .trouble")`)
	p.eval(`location.hash = "settings/"`)
	p.typed(`[data-key="system_prompt"] textarea`, "two\nlines \"q\" \\ ${x}")
	p.click(`.settings-bar .main`)
	p.until(`document.querySelector("dialog .diff")?.textContent.includes("256m")`)
	p.want(`document.querySelector("dialog .diff").textContent.includes("sk-comment")`, "false")
	p.looks("settings-review")
	p.click(`dialog .button.main`)
	p.until(`document.querySelector(".room-notice.good")?.textContent.includes("in force")`)
	text := onDisk(t, path)
	for _, want := range []string{`system_prompt = "two\nlines \"q\" \\ ${x}" # as ever` + "\r\n", "memory_limit = \"256m\"\r\n", "# token = \"sk-comment\"\r\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	p.click(`.room-notice.good .button`)
	p.until(`!document.querySelector(".room-notice.good")`)
	if now := onDisk(t, path); now != rudeFile {
		t.Errorf("undone it is\n%s", now)
	}

	// Somebody changes the file while the difference is looked at.
	p.typed(`[data-key="system_prompt"] textarea`, "mine")
	p.click(`.settings-bar .main`)
	p.until(`document.querySelector("dialog .diff")`)
	theirs := strings.Replace(rudeFile, "kind", "harsh", 1)
	if err := os.WriteFile(path, []byte(theirs), 0o600); err != nil {
		t.Fatal(err)
	}
	p.click(`dialog .button.main`)
	p.until(`document.querySelector("dialog .room-notice.bad")?.textContent.includes("has changed since")`)
	if now := onDisk(t, path); now != theirs {
		t.Errorf("it was overwritten:\n%s", now)
	}
	p.click(`dialog footer .button`)
	p.until(`document.querySelector("[data-key='system_prompt']").textContent.includes("meanwhile")`)
	p.want(`document.querySelector("[data-key='system_prompt'] textarea").value`, "mine")
	p.eval(`[...document.querySelectorAll(".settings-bar button")][0].click()`)

	// Search, a hidden secret, and the whole file.
	p.typed(`.search input`, "compact the window")
	p.typed(`.search input`, "memory_limit")
	p.until(`document.querySelectorAll(".setting").length > 3`)
	p.eval(`location.hash = "settings/file"`)
	p.until(`document.querySelector("#room textarea")?.value.includes("<hidden 1>")`)
	p.looks("settings-file")
	p.eval(`location.hash = "settings/history"`)
	p.until(`document.querySelectorAll("#room tbody tr").length >= 2`)
	p.looks("settings-history")
	p.eval(`location.hash = "settings/secrets"`)
	p.typed(`#room form input[type=text]`, "x_token")
	p.typed(`#room form input[type=password]`, "s3cr3t")
	p.click(`#room form .button.main`)
	p.until(`document.querySelector("#room tbody")?.textContent.includes("x_token")`)
	p.want(`document.body.textContent.includes("s3cr3t") || document.querySelector("#room form input[type=password]").value`, "")
}

// roomTables adds, moves and removes elements of a list of tables, and changes a key that waits for a restart.
func roomTables(t *testing.T, b context.Context) {
	d, path := withSettings(t, rudeFile, gatewaytest.Settings{})
	p := room(t, b, d, "settings/schedules", "Settings")
	save := func(want string) {
		t.Helper()
		p.until(`document.querySelector("dialog .diff")?.textContent.includes(` + quote(want) + `)`)
		p.until(`!document.querySelector("dialog .button.main").hasAttribute("aria-disabled")`)
		p.click(`dialog .button.main`)
		p.until(`!document.querySelector("dialog[open]") && document.querySelector(".room-notice.good")?.textContent.includes("in force")`)
	}
	add := func(i, name, text string) {
		t.Helper()
		at := `[data-key="schedules[` + i + `].`
		p.until(`document.querySelector("[data-key=schedules] .button") && document.querySelectorAll("[data-key=schedules] li").length === ` + i)
		p.eval(`[...document.querySelectorAll("[data-key=schedules] .button")].at(-1).click()`)
		p.typed(at+`name"] input`, name)
		p.typed(at+`agent"] input`, "nobody ]]")
		p.typed(at+`every"] input`, "1h")
		p.typed(at+`text"] input`, text)
		p.typed(at+`as"] input`, "terminal:owner")
		p.until(`document.querySelector(` + quote(at+`agent"] .trouble`) + `)?.textContent.includes("nobody")`)
		p.typed(at+`agent"] input`, "helper")
		p.until(`!document.querySelector(".setting .trouble")`)
		p.click(`.settings-bar .main`)
		save("[[schedules]]")
	}
	rude := "]] \"q\" [[x]] # \u202e <img src=x>"
	add("0", "one", rude)
	add("1", "two", "plain")
	p.want(`document.querySelectorAll("#room img").length`, "0")
	p.looks("settings-tables")
	p.click(`[data-key=schedules] [aria-label='Move schedules[1] up']`)
	save("two")
	text := onDisk(t, path)
	if i, k := strings.Index(text, `"two"`), strings.Index(text, `"one"`); i < 0 || k < i || !strings.Contains(text, "# Ann's.\r\n") || strings.Count(text, "\n") != strings.Count(text, "\r\n") {
		t.Errorf("moved it is\n%s", text)
	}
	p.typed(`[data-key="schedules[1].every"] input`, "2h")
	p.click(`.settings-bar .main`)
	save("2h")
	p.eval(`[...document.querySelectorAll("[data-key=schedules] li .button")].filter((b) => b.textContent === "Remove")[0].click()`)
	p.click(`dialog[open] .button.danger`)
	p.until(`document.querySelector("dialog .diff")`)
	save("two")
	c, err := config.Load(path, func(string) string { return "" })
	if err != nil || len(c.Schedules) != 1 || c.Schedules[0].Name != "one" || c.Schedules[0].Text != rude || c.Schedules[0].Every.String() != "2h0m0s" {
		t.Errorf("%v, %+v", err, c)
	}

	p.eval(`location.hash = "settings/store"`)
	p.typed(`[data-key="store.max_age_hours"] input`, "3")
	p.click(`.settings-bar .main`)
	save("max_age_hours = 3")
	p.until(`document.querySelector("[data-key='store.max_age_hours']").textContent.includes("in force after a restart; until then")`)
	p.want(`document.querySelector("[data-key='store.max_age_hours'] input").value`, "3")
	p.typed(`[data-key="store.dir"] input`, "elsewhere")
	p.click(`.settings-bar .main`)
	p.until(`document.querySelector("dialog")?.textContent.includes("This takes a restart of Flynn") && document.querySelector("dialog").textContent.includes("sign-ins stay in")`)
	p.want(`[...document.querySelectorAll("dialog footer .main")].map((b) => b.textContent.trim()).join()`, "Save and restart")
	p.looks("settings-restart")
}

func onDisk(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func roomSettingsPhone(t *testing.T, b context.Context) {
	d, _ := withSettings(t, rudeFile, gatewaytest.Settings{})
	p := visit(t, b, d)
	p.size(390, 844)
	p.eval(`location.hash = "settings/agent_configs"`)
	p.until(`document.querySelectorAll(".setting").length > 10`)
	p.want(`document.documentElement.scrollWidth <= innerWidth`, "true")
	p.want(`document.querySelectorAll("#room img").length`, "0")
	p.size(1180, 820)
}

func roomChannels(t *testing.T, b context.Context) {
	fake := gatewaytest.Settings{
		Existing: []gateway.Channel{
			{Name: "tg", Plugin: "telegram", Enabled: true, Access: "pair", Senders: "proved", State: "ready", Detail: "@bot <b>x</b> \u202e",
				Secrets: []gateway.ChannelSecret{{Name: "token", Set: true, Stored: "tg_token"}}},
			{Name: "wa", Plugin: "whatsapp", Enabled: true, Access: "pair", State: "degraded", Login: true, Detail: strings.Repeat("long ", 300)},
			{Name: "off", Plugin: "irc", State: "disabled"},
		},
		Kinds: []gateway.ChannelKind{{Plugin: "telegram", Version: "1.0.0", Description: "Telegram, as a <i>bot</i>", Fields: []gateway.FormField{
			{Name: "token", Type: "text", Title: "Token", Secret: true, Help: "write /newbot"},
			{Name: "mode", Type: "text", Title: "Mode", Enum: []string{"poll", "webhook"}, Default: "poll"},
			{Name: "rooms", Type: "list", Title: "Rooms"},
			{Name: "size", Type: "integer", Title: "Size", Required: true},
			{Name: "access", Type: "text", Title: "Access", Host: true, Enum: []string{"pair", "open"}},
		}}},
	}
	var asked []gateway.NewChannel
	fake.Prove = func(c gateway.NewChannel) (gateway.ChannelAccount, error) {
		asked = append(asked, c)
		if c.Secrets["token"] != "1:good" {
			return gateway.ChannelAccount{}, &gateway.Refusal{Text: "no", Faults: []gateway.Fault{{Location: "secrets.token", Message: "Telegram does not know it"}}}
		}
		return gateway.ChannelAccount{Name: c.Name, Detail: "@my_bot"}, nil
	}
	added := make(chan gateway.NewChannel, 1)
	fake.Add = func(c gateway.NewChannel) (gateway.ChannelAccount, error) {
		added <- c
		return gateway.ChannelAccount{Name: c.Name}, nil
	}
	d, _ := withSettings(t, rudeFile, fake)
	p := room(t, b, d, "channels", "Channels")
	p.until(`document.querySelectorAll("#room tbody tr").length === 3`)
	p.want(`document.querySelectorAll("#room b, #room i, #room img").length`, "0")
	p.looks("channels")
	p.eval(`location.hash = "channels/tg"`)
	p.until(`document.querySelector("#room h2")?.textContent === "tg"`)
	p.looks("channel")
	p.eval(`location.hash = "channels/%2Bnew"`)
	p.until(`document.querySelector(".kinds a")`)
	p.eval(`document.querySelector(".kinds a").click()`)
	p.typed(`#room form input[type=password]`, "1:bad")
	p.typed(`#room form input[inputmode=numeric]`, "many")
	p.click(`#room form .button.main`)
	p.until(`document.querySelector("#room form .trouble")?.textContent.includes("whole number")`)
	if len(asked) != 0 {
		t.Errorf("asked with %+v", asked)
	}
	p.typed(`#room form input[inputmode=numeric]`, "7")
	p.click(`#room form .button.main`)
	p.until(`document.querySelector("#room form .trouble")?.textContent.includes("does not know it")`)
	p.looks("channel-add")
	p.typed(`#room form input[type=password]`, "1:good")
	p.click(`#room form .button.main`)
	p.until(`document.querySelector("#room .room-notice.good")?.textContent.includes("@my_bot")`)
	p.click(`#room form .button.main`)
	p.until(`location.hash === "#channels/telegram"`)
	if c := <-added; c.Settings["size"] != float64(7) || c.Secrets["token"] != "1:good" || len(c.Settings) != 1 {
		t.Errorf("added %+v", c)
	}
}

func roomPlugins(t *testing.T, b context.Context) {
	asked := make(chan string, 10)
	plugins := gatewaytest.Plugins{
		Code:  "2@secret,code",
		Lines: []gateway.PluginLine{{Seq: 1, Level: "warn", Text: "<b>line</b> \u202e\x1b[31m"}, {Seq: 2, Level: "info", Text: strings.Repeat("long ", 500)}},
		Instances: []gateway.PluginStatus{{Name: "wa", Plugin: "whatsapp", State: "quarantined", LastError: "it <i>fell</i>", Restarts: 7,
			Containment: []gateway.PluginMeasure{{Name: "files", On: true}, {Name: "network", Detail: "the kernel is too old"}}}},
		OnDisk: []gateway.InstalledPlugin{{Name: "whatsapp", Version: "1.2.0", Installed: true, Kinds: []string{"channel"}, Instances: []string{"channels.wa"},
			Versions: []gateway.PluginVersion{{Version: "1.2.0", Active: true}, {Version: "1.1.0"}}, Rejected: []gateway.RejectedVersion{{Version: "1.3.0", Why: "<b>no</b>"}}}},
		Done: func(what string) error { asked <- what; return nil },
	}
	d, _ := withSettings(t, rudeFile, gatewaytest.Settings{Existing: []gateway.Channel{{Name: "wa", Plugin: "whatsapp", Enabled: true, State: "quarantined", Login: true}}}, plugins)
	p := room(t, b, d, "channels/wa", "Channels")
	p.until(`document.querySelectorAll(".logs li").length === 2 && document.querySelectorAll("#room tbody tr").length === 2`)
	p.want(`document.querySelectorAll("#room b, #room i, .qr").length`, "0") // the code is shown only to those who ask
	button := func(words string) {
		t.Helper()
		p.until(`[...document.querySelectorAll("#room button")].some((b) => b.textContent === "` + words + `")`)
		p.eval(`[...document.querySelectorAll("#room button")].filter((b) => b.textContent === "` + words + `").at(-1).click()`)
	}
	button("Show the code")
	p.until(`document.querySelector(".qr path")?.getAttribute("d").length > 1000`)
	p.looks("channel-login")
	button("Restart")
	p.eval(`location.hash = "channels/%2Bplugins"`)
	p.until(`document.querySelector("[data-plugin=whatsapp]")`)
	p.looks("plugins")
	button("Verify")
	p.until(`document.querySelector("#room .room-notice.bad")?.textContent.includes("bin/x differs")`)
	button("Roll back")
	p.until(`document.querySelector("dialog")?.textContent.includes("1.1.0")`)
	button("Roll back")
	p.until(`!document.querySelector("#room dialog")`)
	button("Disable")
	for _, want := range []string{"restart wa", "verify whatsapp", "rollback whatsapp", "disable whatsapp"} {
		if got := <-asked; got != want {
			t.Errorf("asked for %q, want %q", got, want)
		}
	}
}

func roomDoctor(t *testing.T, b context.Context) {
	found := gateway.Examination{Unexamined: []string{"the <b>log</b>"}, Weaker: []string{}, Findings: []gateway.Finding{
		{Code: "file-readable-by-others", Area: "files", Severity: "wrong", What: "/x is open <img src=x> \u202e", Why: "others can read it", Command: "chmod go= /x", Page: "docs/help/doctor/x.md", File: "/x", Fixable: true},
		{Code: "config-warning", Area: "configuration", Severity: "weak", What: "it is weak", Why: "because", Mend: "do it", Page: "docs/y.md", File: "flynn.toml", Line: 3, Key: "sandbox.image"},
	}}
	mended := make(chan string, 1)
	fake := gatewaytest.Settings{Found: found, Mended: func(code string) ([]gateway.Finding, error) {
		mended <- code
		return found.Findings[:1], nil
	}}
	d, _ := withSettings(t, rudeFile, fake)
	p := room(t, b, d, "doctor", "Doctor")
	p.click(`#room header .button.main, #room .actions .button.main`)
	p.until(`document.querySelectorAll(".finding").length === 2`)
	p.want(`document.querySelectorAll("#room img, #room b").length`, "0")
	p.looks("doctor")
	p.click(`.finding .button`)
	p.until(`document.querySelector(".room-notice.good")?.textContent.includes("1 thing is mended")`)
	if code := <-mended; code != "file-readable-by-others" {
		t.Error(code)
	}
}
