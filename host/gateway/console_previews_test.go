package gateway_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/gateway/gatewaytest"
	"github.com/flynnhost/flynn/host/store"
)

// shown are previews in memory, with rude names.
type shown struct {
	mu   sync.Mutex
	open []gateway.Preview
}

func (s *shown) Ports(_ context.Context, scope string, _ gateway.Caller) ([]gateway.SandboxPorts, error) {
	all := []gateway.SandboxPorts{
		{Sandbox: "a", Session: "web:main:main", Agent: "main", Ports: []int{3000, 65535}, More: true},
		{Sandbox: "b", Session: "irc:#\u202e" + markup + ":main", Agent: "main", Name: "wide", Ports: []int{}, Refused: "no " + markup},
		{Sandbox: "c", Session: "web:c:main", Ports: []int{}},
	}
	if scope != "" {
		all = all[:1]
	}
	return all, nil
}

func (s *shown) OpenPreview(_ context.Context, n gateway.NewPreview, by gateway.Caller) (gateway.PreviewLink, error) {
	if n.Port == 65535 {
		return gateway.PreviewLink{}, store.Conflict("nothing listens on port 65535 " + markup)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := gateway.Preview{ID: "p1", Sandbox: n.Sandbox, Session: "web:main:main", Port: n.Port, By: by.Sender, Opened: time.Now(), Expires: time.Now().Add(time.Hour), Address: "http://p-x.localhost:7351/"}
	s.open = append(s.open, p)
	return gateway.PreviewLink{Preview: p, Link: p.Address + ".flynn/sign-in?code=C"}, nil
}

func (s *shown) LinkPreview(context.Context, string, gateway.Caller) (gateway.PreviewLink, error) {
	return gateway.PreviewLink{Preview: gateway.Preview{Port: 3000}, Link: "https://p-x.preview.example.com/.flynn/sign-in?code=D"}, nil
}

func (s *shown) Previews(context.Context, gateway.Caller) ([]gateway.Preview, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]gateway.Preview{}, s.open...), nil
}

func (s *shown) ClosePreview(context.Context, string, gateway.Caller) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = nil
	return nil
}

func TestPreviewsRoom(t *testing.T) {
	t.Parallel()
	d := open(t, gatewaytest.Demo)
	d.with(func(f *gateway.Backend) { f.Previews = &shown{} })
	p := room(t, browser(t), d, "previews", "Previews")
	p.until(`document.querySelectorAll("#room tbody tr").length === 3 && document.querySelector("#room .room-empty")`)
	p.looks("previews")
	press := func(word string) {
		t.Helper()
		p.eval(`[...document.querySelectorAll("#room .button")].find((x) => x.textContent === "` + word + `").click()`)
	}
	press("Show port 65535")
	p.until(`document.querySelector("#room .trouble")?.textContent.includes("<img")`)
	press("Show port 3000")
	p.until(`document.querySelector("dialog[open] a")`)
	p.want(`(() => { const a = document.querySelector("dialog[open] a"); return a.href.replace(location.port, "PORT") + " " + a.target + " " + a.rel; })()`, "http://p-x.localhost:PORT/.flynn/sign-in?code=C _blank noopener noreferrer")
	p.looks("preview-ready")
	press("Not now")
	p.until(`!document.querySelector("dialog[open]") && document.querySelectorAll("#room tbody")[1]?.rows.length === 1`)
	press("Show")
	p.until(`document.querySelector("dialog[open] a")?.href === "https://p-x.preview.example.com/.flynn/sign-in?code=D"`)
	press("Not now")
	press("Close")
	p.until(`document.querySelectorAll("#room tbody").length === 1`)
	p.eval(`location.hash = "previews/" + encodeURIComponent("web:main")`)
	p.until(`document.querySelectorAll("#room tbody tr").length === 1 && document.querySelector("#room").textContent.includes("Only those of web:main")`)
	p.harmless()
}
