package gateway

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

func TestHooks(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", "192.0.2.1:80", "example", ""} {
		if h, err := NewHooks(listen, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("it listens on %s", h.Addr())
		}
	}
	h, err := NewHooks("127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	begun, release := make(chan struct{}), make(chan struct{})
	go func() {
		done <- h.Run(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				close(begun)
				<-release
			}
			_, _ = io.WriteString(w, r.Host+r.URL.Path)
		}))
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) (string, error) {
		r, err := http.NewRequest("GET", "http://"+h.Addr().String()+path, nil)
		if err != nil {
			return "", err
		}
		r.Host = "hooks.example.com" // a name that the gateway itself refuses
		answer, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return string(body), err
	}
	for range 2 * maxHookClients { // every place is given back
		if body, err := get("/a"); err != nil || body != "hooks.example.com/a" {
			t.Fatalf("%q (%v)", body, err)
		}
	}
	slow := make(chan string, 1)
	go func() {
		body, err := get("/slow")
		if err != nil {
			body = err.Error()
		}
		slow <- body
	}()
	<-begun
	cancel()
	close(release)
	if body := <-slow; !strings.HasSuffix(body, "/slow") {
		t.Errorf("a request under way was cut: %s", body)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
