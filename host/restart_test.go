package host

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/client"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/tool/consent"
	"github.com/flynnhost/flynn/sdk/need"
)

// served is a flynn serve, and the hosts that take each other's place in it.
type served struct {
	t     *testing.T
	path  string
	hosts chan *Host
	ended chan error
	end   func()
}

func serve(t *testing.T, text string) (s *served, first *Host) {
	t.Helper()
	s = &served{t: t, path: filepath.Join(t.TempDir(), "flynn.toml"), hosts: make(chan *Host, 1), ended: make(chan error, 1)}
	s.write(text)
	ctx, cancel := context.WithCancel(context.Background())
	c := Config{Path: s.path, Getenv: os.Getenv, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	go func() { s.ended <- Serve(ctx, c, func(h *Host) { s.hosts <- h }) }()
	s.end = cancel
	t.Cleanup(func() {
		cancel()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
	})
	return s, s.host()
}

// host waits for the next host.
func (s *served) host() *Host {
	s.t.Helper()
	select {
	case h := <-s.hosts:
		eventually(s.t, "the host is ready", h.ready.Load)
		return h
	case err := <-s.ended:
		s.ended <- nil
		s.t.Fatalf("it has ended: %v", err)
	case <-time.After(time.Minute):
		s.t.Fatal("no host has started")
	}
	return nil
}

func (s *served) write(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) text() string {
	s.t.Helper()
	text, err := os.ReadFile(s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// edit makes an edit over the API that takes a restart.
func (s *served) edit(h *Host, key, value string) gateway.ConfigurationEdited {
	s.t.Helper()
	var now gateway.Configuration
	s.get(h, "/api/v1/configuration", &now)
	e := gateway.ConfigurationEdit{Version: now.Version, Restart: true, Changes: []gateway.ConfigurationChange{{Key: strings.Split(key, "."), Value: value}}}
	var edited gateway.ConfigurationEdited
	if err := client.Ask(s.t.Context(), h.current.Config(), "PUT", "/api/v1/configuration", e, &edited); err != nil {
		s.t.Fatal(err)
	}
	return edited
}

func (s *served) get(h *Host, path string, answer any) {
	s.t.Helper()
	if err := client.Get(s.t.Context(), h.current.Config(), path, answer); err != nil {
		s.t.Fatal(err)
	}
}

func restartable(t *testing.T) string {
	return fmt.Sprintf("# Ann's.\n[store]\ndir = %q\n[gateway]\nlisten = %q\n[routing]\ndefault_agent = \"main\"\n[models.default]\nprovider = \"demo\"\n[agent_configs.main]\n",
		t.TempDir(), need.Address(t))
}

// busy is an address on which somebody else listens.
func busy(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}

// TestRestartWithAnEdit: what a running flynn refuses comes in force by a restart.
func TestRestartWithAnEdit(t *testing.T) {
	t.Parallel()
	s, h := serve(t, restartable(t))
	address := need.Address(t)
	edited := s.edit(h, "gateway.listen", address)
	if want := "http://" + address + "/"; edited.Restarting == nil || edited.Restarting.Moved != want {
		t.Errorf("it says %+v, not that the console moves to %s", edited.Restarting, want)
	}
	h = s.host()
	var now gateway.Configuration
	s.get(h, "/api/v1/configuration", &now)
	if h.current.Config().Gateway.Listen != address || now.State != gateway.ConfigurationInForce || len(now.Warnings) > 0 {
		t.Errorf("it listens on %s, and the file is %s: %v", h.current.Config().Gateway.Listen, now.State, now.Warnings)
	}
	var audit gateway.Page[consent.AuditRow]
	s.get(h, "/api/v1/audit", &audit)
	if !strings.Contains(fmt.Sprint(audit), "change gateway.listen") {
		t.Errorf("the audit does not have the edit: %v", audit)
	}
}

// TestRestartThatFails: an edit with which flynn does not start is undone, and told.
func TestRestartThatFails(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]func(*testing.T) (key, value string){
		"address in use": func(t *testing.T) (string, string) { return "gateway.listen", busy(t) },
		"store that is a file": func(t *testing.T) (string, string) {
			file := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return "store.dir", file
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := restartable(t)
			s, h := serve(t, text)
			key, value := bad(t)
			s.edit(h, key, value)
			h = s.host()
			if now := s.text(); now != text {
				t.Errorf("the file is\n%s", now)
			}
			var now gateway.Configuration
			s.get(h, "/api/v1/configuration", &now)
			if now.State != gateway.ConfigurationInForce || len(now.Warnings) != 1 || !strings.Contains(now.Warnings[0].Text, value) {
				t.Errorf("it is %s, with %v", now.State, now.Warnings)
			}
			former, err := config.HistoryOf(h.current.Config()).List()
			if err != nil || !slices.ContainsFunc(former, func(f config.Former) bool { return f.Refused }) {
				t.Errorf("what was written is not kept: %v, %v", former, err)
			}
		})
	}
}

// TestRestartWithABadFile: a file with which flynn does not start ends nothing, and stays as somebody wrote it.
func TestRestartWithABadFile(t *testing.T) {
	t.Parallel()
	text := restartable(t)
	s, h := serve(t, text)
	before := h.current.Config()
	taken := busy(t)
	bad := strings.Replace(text, before.Gateway.Listen, taken, 1)
	s.write(bad)
	if err := client.Ask(t.Context(), before, "POST", "/api/v1/restart", nil, nil); err != nil {
		t.Fatal(err)
	}
	h = s.host()
	var now gateway.Configuration
	s.get(h, "/api/v1/configuration", &now)
	if now.State != gateway.ConfigurationRefused || !strings.Contains(now.Refused, taken) || s.text() != bad {
		t.Errorf("the file is %s, because of %q:\n%s", now.State, now.Refused, s.text())
	}
	s.write("[gateway\n")
	if err := client.Ask(t.Context(), before, "POST", "/api/v1/restart", nil, nil); err == nil || !strings.Contains(err.Error(), "not TOML") {
		t.Errorf("a restart with a file that does not load: %v", err)
	}
	s.write(text) // and it is in force again by itself
	eventually(t, "the file is in force", func() bool {
		s.get(h, "/api/v1/configuration", &now)
		return now.State == gateway.ConfigurationInForce
	})
}

// TestRestartFromTheConsole restarts flynn in a browser: with a key that only a restart changes, and with one that waits for it.
func TestRestartFromTheConsole(t *testing.T) {
	t.Parallel()
	s, h := serve(t, restartable(t))
	page := gatewaytest.Page(t, gatewaytest.Browser(t, chromedp.WindowSize(390, 844)))
	eval := func(expr string) string {
		t.Helper()
		out, err := gatewaytest.Eval(page, expr)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	until := func(expr string) {
		t.Helper()
		if err := gatewaytest.Until(page, expr); err != nil {
			t.Fatal(err)
		}
	}
	typed := func(key, value string) {
		t.Helper()
		field := `document.querySelector('[data-key="` + key + `"] input')`
		until(field)
		eval(`(() => { const f = ` + field + `; f.value = "` + value + `"; f.dispatchEvent(new Event("input", { bubbles: true })); })()`)
		until(`document.querySelector(".settings-bar .main")`)
		eval(`document.querySelector(".settings-bar .main").click()`)
		until(`document.querySelector("dialog .diff")`)
	}
	buttons := `[...document.querySelectorAll("dialog footer .button")].map((b) => b.textContent.trim()).join("|")`
	press := func(word string) {
		t.Helper()
		eval(`[...document.querySelectorAll(".button")].findLast((b) => b.textContent.trim() === "` + word + `").click()`)
	}

	url := h.URL()
	if err := chromedp.Do(page, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	until(`document.querySelector("#connection.connected")`)
	eval(`window.first = location.hash = "settings/store"`)
	typed("store.max_age_hours", "5")
	if got := eval(buttons); got != "Cancel|Save|Save and restart" {
		t.Errorf("a key that can wait offers %s", got)
	}
	press("Save")
	until(`document.querySelector('[data-key="store.max_age_hours"]').textContent.includes("until then 24")`)
	press("Restart Flynn")
	until(`document.querySelector("dialog[open] p")`)
	press("Restart Flynn")
	h = s.host()
	until(`document.querySelector("#room").textContent.includes("has been restarted")`)
	until(`!document.querySelector('[data-key="store.max_age_hours"]').textContent.includes("until then")`)
	if h.current.Config().Store.MaxAgeHours != 5 {
		t.Error("the key is not in force")
	}

	eval(`location.hash = "settings/gateway"`)
	typed("gateway.listen", busy(t))
	if got := eval(buttons); got != "Cancel|Save and restart" {
		t.Errorf("a key that cannot wait offers %s", got)
	}
	press("Save and restart")
	s.host()
	until(`document.querySelector("#room .room-notice.warn")?.textContent.includes("did not start with the last edit")`)

	address := need.Address(t)
	typed("gateway.listen", address)
	press("Save and restart")
	s.host()
	until(`document.querySelector("#room .room-notice a")?.href.startsWith("http://` + address + `/#token=")`)
	if got := eval(`window.first`); got != "settings/store" {
		t.Errorf("the page was loaded again: %s", got)
	}
	eval(`document.querySelector("#room .room-notice a").click()`)
	until(`location.host === "` + address + `" && document.querySelector("#connection.connected")`)
}
