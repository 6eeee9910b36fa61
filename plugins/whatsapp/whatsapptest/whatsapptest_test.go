package whatsapptest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call makes one call as a client would.
func call(t *testing.T, s *Server, method, path, token, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer map[string]any
	_ = json.NewDecoder(resp.Body).Decode(&answer)
	return resp.StatusCode, answer
}

func TestRefusals(t *testing.T) {
	s := Start(t, Config{})
	s.CloseWindow("2")
	text := func(to, body string) string {
		return `{"messaging_product":"whatsapp","to":"` + to + `","type":"text","text":{"body":"` + body + `"}}`
	}
	for _, c := range []struct {
		name, path, token, body string
		status, code            int
	}{
		{"no token", "/" + PhoneID + "/messages", "", text("1", "x"), 401, 190},
		{"another number", "/1/messages", AccessToken, text("1", "x"), 400, 100},
		{"no product", "/" + PhoneID + "/messages", AccessToken, `{"to":"1"}`, 400, 100},
		{"too long", "/" + PhoneID + "/messages", AccessToken, text("1", strings.Repeat("x", 4097)), 400, 100},
		{"outside of 24 hours", "/" + PhoneID + "/messages", AccessToken, text("2", "x"), 400, 131047},
		{"a medium that there is not", "/" + PhoneID + "/messages", AccessToken, `{"messaging_product":"whatsapp","to":"1","type":"image","image":{"id":"7"}}`, 400, 131009},
		{"four buttons", "/" + PhoneID + "/messages", AccessToken, `{"messaging_product":"whatsapp","to":"1","type":"interactive","interactive":{"body":{"text":"x"},"action":{"buttons":[{},{},{},{}]}}}`, 400, 131009},
		{"unknown template", "/" + PhoneID + "/messages", AccessToken, `{"messaging_product":"whatsapp","to":"1","type":"template","template":{"name":"x"}}`, 400, 132001},
		{"unknown type", "/" + PhoneID + "/messages", AccessToken, `{"messaging_product":"whatsapp","to":"1","type":"song","song":{}}`, 400, 131051},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, answer := call(t, s, http.MethodPost, c.path, c.token, c.body)
			e, _ := answer["error"].(map[string]any)
			if status != c.status || e["code"] != float64(c.code) {
				t.Errorf("%d %v", status, answer)
			}
		})
	}
	if len(s.Sent()) != 0 {
		t.Errorf("sent %+v", s.Sent())
	}
}

func TestWindowOpensWithAMessage(t *testing.T) {
	s := Start(t, Config{RedeliverAfter: time.Hour})
	s.CloseWindow("2")
	s.Say("2", "Ann", "text", map[string]any{"body": "hi"})
	status, answer := call(t, s, http.MethodPost, "/"+PhoneID+"/messages", AccessToken, `{"messaging_product":"whatsapp","to":"2","type":"text","text":{"body":"x"}}`)
	if status != http.StatusOK || len(s.Sent()) != 1 {
		t.Errorf("%d %v", status, answer)
	}
}

// hook is a client's webhook that answers with a list of statuses, one each.
type hook struct {
	*httptest.Server
	mu      sync.Mutex
	answers []int
	bodies  []string
}

func newHook(t *testing.T, answers ...int) *hook {
	h := &hook{answers: answers}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
			return
		}
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		if r.Header.Get("X-Hub-Signature-256") != Signature(body) {
			t.Error("a body without its signature")
		}
		h.bodies = append(h.bodies, string(body))
		status := http.StatusOK
		if len(h.answers) > 0 {
			status, h.answers = h.answers[0], h.answers[1:]
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(h.Close)
	return h
}

func TestNotificationsComeAgainUntil200(t *testing.T) {
	s := Start(t, Config{RedeliverAfter: time.Millisecond})
	h := newHook(t, 503, 404)
	if err := s.Subscribe(h.URL, "any"); err != nil {
		t.Fatal(err)
	}
	s.Say("1", "Ann", "text", map[string]any{"body": "hello"})
	s.WaitDone(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.bodies) != 3 || h.bodies[0] != h.bodies[2] || !strings.Contains(h.bodies[0], `"hello"`) {
		t.Errorf("bodies %q", h.bodies)
	}
}

func TestStatusesCarryTheKey(t *testing.T) {
	s := Start(t, Config{Statuses: true})
	h := newHook(t)
	if err := s.Subscribe(h.URL, "any"); err != nil {
		t.Fatal(err)
	}
	call(t, s, http.MethodPost, "/"+PhoneID+"/messages", AccessToken, `{"messaging_product":"whatsapp","to":"2","type":"text","text":{"body":"x"},"biz_opaque_callback_data":"k1"}`)
	s.WaitDone(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	if all := strings.Join(h.bodies, ""); strings.Count(all, `"biz_opaque_callback_data":"k1"`) != 2 || !strings.Contains(all, `"delivered"`) {
		t.Errorf("bodies %s", all)
	}
}

func TestAHandshakeThatFails(t *testing.T) {
	s := Start(t, Config{})
	h := httptest.NewServer(http.NotFoundHandler())
	defer h.Close()
	if s.Subscribe(h.URL, "any") == nil {
		t.Error("an address that does not repeat the challenge was taken")
	}
}
