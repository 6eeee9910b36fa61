package setup

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
	"unicode"

	"github.com/flynnhost/flynn/host/sandbox/driver"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/native"
	"github.com/flynnhost/flynn/host/sandbox/program"
)

// Places is where Look looks.
type Places struct {
	// Servers are base addresses of OpenAI-compatible servers, by their usual names.
	Servers []Server
	// Sockets are paths of engine sockets.
	Sockets []Engine
	// Own finds out whether Flynn can make sandboxes itself, and which limits it cannot hold in them. It is called when no engine answers;
	// nil means that it cannot.
	Own func(context.Context) ([]driver.Lack, error)
}

// Server is a model server.
type Server struct {
	Name    string
	BaseURL string
	Models  []string // as it lists them
}

// Engine is a container engine.
type Engine struct {
	Name   string // "Docker" or "Podman"
	Socket string
}

// Found is what Look found.
type Found struct {
	Keys    []Maker // whose KeyEnv is set
	Servers []Server
	Engines []Engine
	Own     bool // whether Flynn makes sandboxes itself
	Lacks   []driver.Lack
	Without error // why there can be no sandbox, if it was found out
}

// UsualPlaces are the ports and sockets on which people run such things.
func UsualPlaces(getenv func(string) string) Places {
	local := func(name string, port int) Server {
		return Server{Name: name, BaseURL: fmt.Sprintf("http://127.0.0.1:%d/v1", port)}
	}
	p := Places{Own: own, Servers: []Server{
		local("Ollama", 11434), local("LM Studio", 1234), local("llama.cpp", 8080), local("vLLM", 8000), local("LiteLLM", 4000), local("Jan", 1337),
	}}
	if u, err := url.Parse(getenv("DOCKER_HOST")); err == nil && u.Scheme == "unix" {
		p.Sockets = append(p.Sockets, Engine{"Docker", u.Path})
	}
	p.Sockets = append(p.Sockets, Engine{"Docker", "/var/run/docker.sock"}, Engine{"Podman", "/run/podman/podman.sock"})
	if dir := getenv("XDG_RUNTIME_DIR"); dir != "" {
		p.Sockets = append(p.Sockets, Engine{"Docker", filepath.Join(dir, "docker.sock")}, Engine{"Podman", filepath.Join(dir, "podman/podman.sock")})
	}
	if home := getenv("HOME"); home != "" {
		p.Sockets = append(p.Sockets, Engine{"Docker", filepath.Join(home, ".docker/run/docker.sock")})
	}
	return p
}

// own makes a sandbox that ends at once.
func own(ctx context.Context) ([]driver.Lack, error) {
	dir, err := os.MkdirTemp("", "flynn-sandbox")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	d, err := native.New(native.Config{Folder: dir, Supervisor: func() (string, error) { return program.FindSupervisor(slog.New(slog.DiscardHandler)) }})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := d.Ping(ctx); err != nil {
		return nil, err
	}
	c, err := d.Capabilities(ctx)
	return c.Lacks, err
}

// ownTimeout bounds a run of Places.Own.
const ownTimeout = 20 * time.Second

// lookTimeout bounds the wait for each place; what answers on this machine does so at once.
const lookTimeout = time.Second

// Look looks for keys, servers and engines, at all places at the same time. It sends no key anywhere.
func Look(ctx context.Context, getenv func(string) string, p Places) Found {
	whole := ctx
	ctx, cancel := context.WithTimeout(whole, lookTimeout)
	defer cancel()
	var out Found
	for _, m := range Makers() {
		if m.KeyEnv != "" && getenv(m.KeyEnv) != "" {
			out.Keys = append(out.Keys, m)
		}
	}
	models, answers := make([][]string, len(p.Servers)), make([]bool, len(p.Sockets))
	var looking sync.WaitGroup
	for i, s := range p.Servers {
		looking.Go(func() { models[i] = ListModels(ctx, s.BaseURL, "") })
	}
	for i, e := range p.Sockets {
		looking.Go(func() { answers[i] = pings(ctx, e.Socket) })
	}
	looking.Wait()
	for i, s := range p.Servers {
		if s.Models = models[i]; s.Models != nil {
			out.Servers = append(out.Servers, s)
		}
	}
	for i, e := range p.Sockets {
		if answers[i] && !slices.ContainsFunc(out.Engines, func(o Engine) bool { return sameFile(o.Socket, e.Socket) }) {
			out.Engines = append(out.Engines, e)
		}
	}
	if len(out.Engines) == 0 && p.Own != nil {
		longer, cancel := context.WithTimeout(whole, ownTimeout)
		defer cancel()
		out.Lacks, out.Without = p.Own(longer)
		out.Own = out.Without == nil
	}
	return out
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// pings reports whether an engine answers on a socket.
func pings(ctx context.Context, socket string) bool {
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/_ping", nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// Words describes what was found, a line for each.
func (f Found) Words() []string {
	var out []string
	for _, m := range f.Keys {
		out = append(out, "a key for "+m.Title+" in $"+m.KeyEnv)
	}
	for _, s := range f.Servers {
		out = append(out, fmt.Sprintf("a model server at %s (probably %s) with %d models", s.BaseURL, s.Name, len(s.Models)))
	}
	for _, e := range f.Engines {
		out = append(out, e.Name+" at "+e.Socket)
	}
	if f.Own {
		out = append(out, "sandboxes that Flynn makes itself, because no container engine answers")
	}
	if f.Without != nil {
		out = append(out, "no way to make sandboxes: no container engine answers, and Flynn cannot make them itself: "+machine.Reason(f.Without))
	}
	return out
}
