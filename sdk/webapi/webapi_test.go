package webapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/sdk/webapi"
)

func TestCall(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/redirect":
			http.Redirect(w, r, "/", http.StatusFound)
		default:
			_, _ = io.WriteString(w, r.Header.Get("Authorization"))
		}
	}))
	defer s.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	c := webapi.NewClient()
	defer c.CloseIdleConnections()
	call := func(address string) (*http.Response, []byte, error) {
		r, err := http.NewRequest(http.MethodPost, address, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "token")
		return webapi.Call(c, r, 5)
	}
	if answer, body, err := call(s.URL); err != nil || answer.StatusCode != http.StatusOK || string(body) != "token" {
		t.Errorf("%q, %v", body, err)
	}
	if answer, _, err := call(s.URL + "/redirect"); err != nil || answer.StatusCode != http.StatusFound {
		t.Errorf("a redirect: %v", err)
	}
	if _, _, err := call(s.URL + "/cut?secret"); err == nil || webapi.Unsent(err) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a call that was cut off: %v", err)
	}
	if _, _, err := call(closed.URL + "/?secret"); !webapi.Unsent(err) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a call without a connection: %v", err)
	}
	if _, err := webapi.Get(t.Context(), c, s.URL, "long"); err != nil {
		t.Error(err)
	}
	r, _ := http.NewRequest(http.MethodGet, s.URL, nil)
	r.Header.Set("Authorization", "longer")
	if _, _, err := webapi.Call(c, r, 5); err == nil || webapi.Unsent(err) {
		t.Errorf("an answer that is too long: %v", err)
	}
	if _, err := webapi.Get(t.Context(), c, s.URL+"/redirect", "t"); err == nil || !strings.Contains(err.Error(), "302 Found") {
		t.Errorf("a file that is elsewhere: %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "soon": 0, "99999999999999999999": 0, "Mon, 02 Jan 2006 15:04:05 GMT": 0,
	} {
		if got := webapi.RetryAfter(http.Header{"Retry-After": {text}}); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	later := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	if got := webapi.RetryAfter(http.Header{"Retry-After": {later}}); got < 59*time.Minute || got > time.Hour {
		t.Errorf("in an hour is %v", got)
	}
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct {
		address              string
		base, private, owned bool
	}{
		{"https://api.example.com/v1", true, true, true},
		{"https://files.example.com", true, true, true},
		{"https://EXAMPLE.com", true, true, true},
		{"http://files.example.com", true, false, false},
		{"https://example.com.evil.test", true, true, false},
		{"https://notexample.com", true, true, false},
		{"https://user@api.example.com", false, true, false},
		{"https://api.example.com?x=1", false, true, true},
		{"http://127.0.0.1:80", true, true, false},
		{"ws://localhost/x", false, true, false},
		{"ftp://api.example.com", false, false, false},
		{"api.example.com", false, false, false},
		{"%", false, false, false},
		{"", false, false, false},
	} {
		if got := webapi.Base(c.address); got != c.base {
			t.Errorf("Base(%q) is %v", c.address, got)
		}
		if got := webapi.Private(c.address); got != c.private {
			t.Errorf("Private(%q) is %v", c.address, got)
		}
		if got := webapi.Owned(c.address, "https://api.example.com/v1/", "example.com"); got != c.owned {
			t.Errorf("Owned(%q) is %v", c.address, got)
		}
	}
}
