package livetest

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// token is the gateway's, from the address that the host printed.
func (s *site) token() string {
	s.t.Helper()
	u, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimPrefix(u.Fragment, "token=")
}

// get reads a page of the gateway.
func (s *site) get(path string) (string, error) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://127.0.0.1:"+s.port+path, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+s.token())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func (s *site) metrics() string {
	text, err := s.get("/metrics")
	if err != nil {
		return ""
	}
	return text
}

// metric fails until the host counts as the line says.
func (s *site) metric(line string) error {
	if text := s.metrics(); !strings.Contains(text, line+"\n") {
		return fmt.Errorf("no %s", line)
	}
	return nil
}
