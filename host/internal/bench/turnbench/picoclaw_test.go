package turnbench

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// picoclaw is a PicoClaw gateway, spoken to over its own WebSocket channel, "pico". Its configuration is its defaults with the fake
// model alone, on loopback, and without its heartbeat.
type picoclaw struct {
	b       *testing.B
	program string
	dir     string
	address string

	mu    sync.Mutex
	links map[int]*websocket.Conn // by session
}

const picoToken = "a-token-for-the-benchmark"

func newPicoclaw(b *testing.B, t *table, program, model string) peer {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	p := &picoclaw{b: b, program: program, dir: b.TempDir(), address: lis.Addr().String(), links: map[int]*websocket.Conn{}}
	port := lis.Addr().(*net.TCPAddr).Port
	lis.Close() // it is PicoClaw's from here on
	config, _ := json.Marshal(object{
		"version": 3,
		"agents":  object{"defaults": object{"workspace": filepath.Join(p.dir, "workspace"), "model_name": "fake"}},
		"model_list": []object{
			{"model_name": "fake", "model": "openai/fake", "api_keys": []string{"none"}, "api_base": model},
		},
		"channel_list": object{"pico": object{"enabled": true, "type": "pico", "settings": object{"token": picoToken, "max_connections": 100}}},
		"heartbeat":    object{"enabled": false},
		"gateway":      object{"host": "127.0.0.1", "port": port, "log_level": "info"},
	})
	if err := os.WriteFile(filepath.Join(p.dir, "config.json"), config, 0o600); err != nil {
		b.Fatal(err)
	}
	p.takeStart(t)
	p.launch()
	return p
}

// takeStart measures what takeStart of our host does.
func (p *picoclaw) takeStart(t *table) {
	var took []time.Duration
	for range 20 {
		began := time.Now()
		_, stop := p.launch()
		took = append(took, time.Since(began))
		stop()
	}
	slices.Sort(took)
	ready := quantile(took, 0.5)
	t.put("start to ready", "PicoClaw", fmt.Sprintf("min %.1f, p50 %.1f ms", millis(took[0]), millis(ready)))
	t.owe("start to ready", "p50 < PicoClaw's", t.ready < ready)
	pid, stop := p.launch()
	<-time.After(idleAfter)
	sizes := sizesOf(p.b, pid)
	t.put("idle memory", "PicoClaw", idleText(sizes))
	t.owe("idle memory", "RSS < PicoClaw's", t.rss < sizes["RSS"])
	stop()
}

// launch starts the program and waits until it says that it is ready. It is stopped with the benchmark, if not before.
func (p *picoclaw) launch() (pid int, stop func()) {
	cmd := exec.Command(p.program, "gateway")
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "PICOCLAW_HOME=" + p.dir, "PICOCLAW_CONFIG=" + filepath.Join(p.dir, "config.json")}
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.b.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		p.b.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cmd.Process.Signal(os.Interrupt)
		late := time.AfterFunc(answerTimeout, func() { cmd.Process.Kill() })
		defer late.Stop()
		cmd.Wait()
	})
	p.b.Cleanup(stop)
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for late := time.Now().Add(answerTimeout); ; <-time.After(250 * time.Microsecond) {
		if res, err := client.Get("http://" + p.address + "/ready"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return cmd.Process.Pid, stop
			}
		}
		if time.Now().After(late) {
			text, _ := os.ReadFile(log.Name())
			p.b.Fatalf("PicoClaw is not ready; its log ends with:\n%s", text[max(0, len(text)-4096):])
		}
	}
}

// picoMessage is one message of its protocol.
type picoMessage struct {
	Type    string         `json:"type"`
	ID      string         `json:"id,omitempty"`
	Payload map[string]any `json:"payload,omitempty"`
}

// link is the connection of a session.
func (p *picoclaw) link(ctx context.Context, session int) (*websocket.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.links[session]; ok {
		return c, nil
	}
	c, _, err := websocket.Dial(ctx, fmt.Sprintf("ws://%s/pico/ws?session_id=s%d", p.address, session),
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + picoToken}}})
	if err != nil {
		return nil, err
	}
	p.links[session] = c
	p.b.Cleanup(func() { c.CloseNow() })
	return c, nil
}

func (p *picoclaw) turn(session int, say, answer string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	c, err := p.link(ctx, session)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := wsjson.Write(ctx, c, picoMessage{Type: "message.send", ID: fmt.Sprint(began.UnixNano()), Payload: object{"content": say}}); err != nil {
		return 0, err
	}
	for {
		var m picoMessage
		if err := wsjson.Read(ctx, c, &m); err != nil {
			return 0, fmt.Errorf("wait for the answer: %w", err)
		}
		content, _ := m.Payload["content"].(string)
		if m.Payload["kind"] == nil && (m.Type == "message.create" || m.Type == "message.update") && strings.Contains(content, answer) {
			return time.Since(began), nil
		}
	}
}
