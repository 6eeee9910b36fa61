package livetest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const guestConfig = `
[agent_configs.main]
[routing]
default_agent = "main"
[access]
mode = "open"
[gateway]
listen = "127.0.0.1:%PORT%"
hooks_listen = "127.0.0.1:HOOKS"
public_url = "https://flynn.example.com/public"
[store]
dir = "%DIR%/store"
[channels.guest]
plugin = "guest"
[plugins.dev_paths]
guest = "%DIR%/guest"
` + demoModels

// guestSite is a site with the plugin of testdata/guest.
func guestSite(t *testing.T) (s *site, hooks string) {
	t.Helper()
	port := freePort(t)
	s = newSite(t, strings.Replace(guestConfig, "HOOKS", port, 1))
	if err := build(filepath.Join(s.dir, "guest", "bin"), "./host/internal/e2e/livetest/testdata/guest", raced); err != nil {
		t.Fatal(err)
	}
	if err := describe(filepath.Join(s.dir, "guest"), "host/internal/e2e/livetest/testdata/guest"); err != nil {
		t.Fatal(err)
	}
	return s, "http://127.0.0.1:" + port
}

// post sends a request to the listener for webhooks and returns what came back. Like every platform it tries again when it was told to, of
// which a test that polls hears more the longer it does.
func post(method, url, body string) (status int, text string, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if status, text, err = postOnce(method, url, body); err != nil || status != http.StatusTooManyRequests {
			break
		}
	}
	return status, text, err
}

func postOnce(method, url, body string) (status int, text string, err error) {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") == "" {
		return 0, "", errors.New("no Retry-After")
	}
	b, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(b), err
}

func TestPluginUsesTheHost(t *testing.T) {
	t.Parallel()
	s, hooks := guestSite(t)
	s.start()
	box := hooks + "/hooks/guest/in/box"
	served := func(start int) {
		t.Helper()
		s.eventually(fmt.Sprintf("start %d is served", start), func() error {
			status, text, err := post("GET", box, "")
			if err == nil && (status != 200 || !strings.HasPrefix(text, fmt.Sprintf("start %d,", start))) {
				err = fmt.Errorf("%d %s", status, text)
			}
			return err
		})
	}
	served(1)

	t.Run("a webhook is answered and its message as well", func(t *testing.T) {
		if status, text, err := post("POST", box+"?id=1", "hello"); err != nil || status != 200 {
			t.Fatalf("%d %s (%v)", status, text, err)
		}
		s.eventually("the answer was sent", func() error {
			_, text, err := post("GET", box, "")
			if err == nil && !strings.Contains(text, "sent You said: hello") {
				err = errors.New(text)
			}
			return err
		})
	})
	t.Run("media are kept in the store", func(t *testing.T) {
		sum := sha256.Sum256([]byte("a note"))
		digest := hex.EncodeToString(sum[:])
		status, text, err := post("POST", box, "a note")
		if want := digest + " note.txt text/plain; charset=utf-8 a note"; err != nil || status != 200 || text != want {
			t.Errorf("%d %q (%v), want %q", status, text, err, want)
		}
		kept, err := os.ReadFile(filepath.Join(s.dir, "store", "media", digest[:2], digest))
		if err != nil || string(kept) != "a note" {
			t.Errorf("kept: %q (%v)", kept, err)
		}
	})
	t.Run("the listener leads nowhere else", func(t *testing.T) {
		for _, path := range []string{"/", "/api/v1/status", "/metrics", "/healthz", "/hooks/guest", "/hooks/guest/in", "/hooks/none/in/box", "/hooks/guest/in/../in/box"} {
			if status, text, err := post("GET", hooks+path, ""); err != nil || status != 404 || text != "Not Found\n" {
				t.Errorf("%s: %d %q (%v)", path, status, text, err)
			}
		}
		if status, _, err := post("POST", "http://127.0.0.1:"+s.port+"/hooks/guest/in/box", ""); err != nil || status != 404 && status != 405 {
			t.Errorf("the gateway's own address: %d (%v)", status, err)
		}
		if status, _, err := post("POST", box, strings.Repeat("x", 256<<10+1)); err != nil || status != 413 {
			t.Errorf("too long a body: %d (%v)", status, err)
		}
	})
	t.Run("it is counted", func(t *testing.T) {
		for _, line := range []string{
			`flynn_plugin_events_total{instance="guest",name="posts"} 1`,
			`flynn_plugin_service_calls_total{code="OK",instance="guest",method="PutMedia"} 1`,
			`flynn_webhook_requests_total{instance="guest",status="413"} 1`,
		} {
			s.eventually(line, func() error { return s.metric(line) })
		}
	})
	t.Run("a killed plugin comes back with its values", func(t *testing.T) {
		pid := s.pluginPID(0)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		var odd error // until the next process serves, platforms are told to try again
		s.eventually("the next start is served", func() error {
			status, text, err := post("GET", box, "")
			if err == nil && status != 200 && status != 503 {
				odd = fmt.Errorf("%d %s", status, text)
			}
			if err == nil && (status != 200 || !strings.HasPrefix(text, "start 2,")) {
				err = fmt.Errorf("%d %s", status, text)
			}
			return err
		})
		if odd != nil {
			t.Error(odd)
		}
	})
	t.Run("and after a restart of the host", func(t *testing.T) {
		s.stop()
		s.start()
		served(3)
		if _, text, _ := post("GET", box, ""); !strings.Contains(text, "sent You said: hello") {
			t.Errorf("it says %q", text)
		}
	})
	s.logged("webhook is served", "instance=guest", "/hooks/guest/in/box")
	if text := s.log.String(); strings.Contains(text, "Bearer") {
		t.Error("a token is in the log")
	}
}

func TestHostWithoutWebhooks(t *testing.T) {
	t.Parallel()
	s, _ := guestSite(t)
	text, err := os.ReadFile(filepath.Join(s.dir, "flynn.toml"))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "hooks_listen") && !strings.HasPrefix(line, "public_url") {
			kept = append(kept, line)
		}
	}
	s.write("flynn.toml", strings.Join(kept, ""))
	s.start()
	s.eventually("the operator is told", func() error {
		if !strings.Contains(s.log.String(), "set [gateway] hooks_listen") {
			return errors.New(s.log.String())
		}
		return nil
	})
}
