package webhooktest

import (
	"bytes"
	"net/http"
	"testing"
	"time"
)

func TestSystemTakesEachAnswerOnce(t *testing.T) {
	s := New(t)
	post := func(id string, signature func(http.Header)) int {
		body := []byte(`{"conversation":"c","text":"hi"}`)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL(), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = s.Header(id, time.Now(), body)
		signature(r.Header)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	asIs := func(http.Header) {}
	s.Next(Trouble{Status: 429, RetryAfter: "3"}, Trouble{HangUp: true}, Trouble{HangUp: true, Taken: true})
	for i, c := range []struct {
		id     string
		change func(http.Header)
		want   int
	}{
		{"a", func(h http.Header) { h.Set("Webhook-Signature", "v1,AAAA") }, http.StatusUnauthorized},
		{"a", asIs, http.StatusTooManyRequests},
		{"a", asIs, 0},
		{"a", asIs, 0},
		{"a", asIs, http.StatusConflict},
		{"b", asIs, http.StatusOK},
	} {
		if got := post(c.id, c.change); got != c.want {
			t.Errorf("post %d: status %d, want %d", i, got, c.want)
		}
	}
	if got := s.Answers(t.Context(), 2); len(got) != 2 || got[0].ID != "a" || got[1].Text != "hi" || s.Posts() != 5 {
		t.Errorf("answers %+v of %d posts", got, s.Posts())
	}
}
