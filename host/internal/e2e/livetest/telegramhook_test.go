package livetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
)

// proxy stands between Telegram and the host's listener for webhooks, as in every set-up of this mode. It notes what went through and
// can lose an answer on its way back.
type proxy struct {
	*httptest.Server

	mu       sync.Mutex
	body     []byte // of the last request
	begun    int    // requests that came
	statuses []int  // of those that were answered
	lose     bool   // answers, on their way back
}

func newProxy(t *testing.T, address string) *proxy {
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	pass := httputil.NewSingleHostReverseProxy(to)
	pass.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) } // the host is down
	pass.ModifyResponse = p.answered
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.mu.Lock()
		p.body = body
		p.begun++
		p.mu.Unlock()
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *proxy) answered(r *http.Response) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lose {
		return errors.New("the answer is lost")
	}
	p.statuses = append(p.statuses, r.StatusCode)
	return nil
}

// loses makes answers get lost from now on, or no more.
func (p *proxy) loses(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = on
}

// seen is how many requests came, and with what they were answered.
func (p *proxy) seen() (begun int, statuses []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun, append([]int(nil), p.statuses...)
}

// again sends the last update once more, with a secret, and returns the status.
func (p *proxy) again(t *testing.T, secret string) int {
	t.Helper()
	p.mu.Lock()
	body := p.body
	p.mu.Unlock()
	r, err := http.NewRequest(http.MethodPost, p.URL+"/hooks/telegram", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Telegram-Bot-Api-Secret-Token", secret)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// newHooked is a site whose Telegram brings its updates to the host's listener, by way of a proxy.
func newHooked(t *testing.T) (*site, *telegramtest.Server, *proxy) {
	t.Helper()
	s, tg := newTelegram(t)
	port := freePort(t)
	p := newProxy(t, "http://127.0.0.1:"+port)
	s.write("flynn.toml", strings.NewReplacer(
		"plugin = \"telegram\"\n", "plugin = \"telegram\"\nmode = \"webhook\"\n",
		"[gateway]\n", fmt.Sprintf("[gateway]\nhooks_listen = \"127.0.0.1:%s\"\npublic_url = %q\n", port, p.URL),
	).Replace(s.read("flynn.toml")))
	return s, tg, p
}

func TestTelegramBringsItsUpdates(t *testing.T) {
	s, tg, p := newHooked(t)
	s.start()
	set := tg.Await("setWebhook", 1).Params
	if set["url"] != p.URL+"/hooks/telegram" || len(set["secret_token"]) < 20 {
		t.Errorf("Telegram is told %+v", set)
	}
	ann := tg.Private("Ann")
	ann.Say("hello")
	ann.AwaitText(1, "You said: hello")
	// settled waits until nothing is on its way: an answer that a kill cuts short would come again, and say so.
	settled := func() {
		t.Helper()
		tg.AwaitConfirmed()
		s.eventually("the answers are delivered", func() error { return s.metric("flynn_replies_waiting 0") })
	}
	settled()

	t.Run("an update of somebody else is refused", func(t *testing.T) {
		for _, secret := range []string{"", "guessed", strings.Repeat("A", len(set["secret_token"]))} {
			if code := p.again(t, secret); code != http.StatusUnauthorized {
				t.Errorf("answered %d", code)
			}
		}
		if err := s.metric(`flynn_messages_total{channel="telegram",fate="duplicate"} 1`); err == nil {
			t.Error("it reached the host")
		}
	})
	t.Run("an update that comes again is answered once", func(t *testing.T) {
		if code := p.again(t, set["secret_token"]); code != http.StatusOK {
			t.Errorf("answered %d: Telegram would bring it for ever", code)
		}
		s.eventually("it came twice", func() error { return s.metric(`flynn_messages_total{channel="telegram",fate="duplicate"} 1`) })
		s.once(t, ann, "You said: hello\n")
	})
	t.Run("the plugin dies after the host has it and before Telegram knows", func(t *testing.T) {
		settled()
		pid := s.pluginPID(0)
		p.loses(true)
		n := len(ann.Messages())
		ann.Say("lost answer")
		ann.AwaitText(n+1, "You said: lost answer")
		s.eventually("the answer is delivered", func() error { return s.metric("flynn_replies_waiting 0") })
		kill(t, pid, syscall.SIGKILL)
		s.pluginPID(pid)
		if tg.Unconfirmed() != 1 {
			t.Error("Telegram knows of it")
		}
		p.loses(false)
		tg.AwaitConfirmed()
		s.once(t, ann, "You said: lost answer\n")
	})
	t.Run("the plugin dies with the update in its hands", func(t *testing.T) {
		settled()
		pid := s.pluginPID(0)
		kill(t, pid, syscall.SIGSTOP)
		s.eventually("it has stopped", func() error { return stopped(pid) })
		before, answers := p.seen()
		ann.Say("in its hands")
		s.eventually("Telegram has brought it", func() error {
			if begun, _ := p.seen(); begun == before {
				return errors.New("not yet")
			}
			return nil
		})
		if _, now := p.seen(); len(now) != len(answers) {
			t.Error("it was answered by nobody")
		}
		kill(t, pid, syscall.SIGKILL)
		tg.AwaitConfirmed()
		if _, now := p.seen(); now[len(answers)] != http.StatusServiceUnavailable {
			t.Errorf("Telegram heard %d and not that it should come again", now[len(answers)])
		}
		s.pluginPID(pid)
		s.once(t, ann, "You said: in its hands\n")
	})
	t.Run("the host is away", func(t *testing.T) {
		settled()
		s.kill()
		n := len(ann.Messages())
		ann.Say("while you were out")
		s.eventually("Telegram has tried", func() error {
			if tg.WebhookError() == "" {
				return errors.New("not yet")
			}
			return nil
		})
		s.start()
		ann.AwaitText(n+1, "You said: while you were out")
		s.once(t, ann, "You said: while you were out\n")
	})
	tg.AwaitConfirmed()
	if n := len(tg.Calls("getUpdates")); n != 0 {
		t.Errorf("it polled %d times as well", n)
	}
	if log := s.log.String(); strings.Contains(log, telegramtest.Token) || strings.Contains(log, set["secret_token"]) {
		t.Error("a secret is in the log")
	}
}

func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// stopped returns an error unless every thread of a process has stopped, which takes a moment after the signal.
func stopped(pid int) error {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(tasks) == 0 {
		return fmt.Errorf("process %d has no threads: %w", pid, err)
	}
	for _, file := range tasks {
		stat, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, state, _ := strings.Cut(string(stat), ") "); !strings.HasPrefix(state, "T") {
			return fmt.Errorf("%s: %.30s", file, state)
		}
	}
	return nil
}
