package livetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/flynnhost/flynn/host/gateway"
)

// token is the gateway's, from the address that flynn open prints.
func (s *site) token() string {
	s.t.Helper()
	u, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimPrefix(u.Fragment, "token=")
}

// call asks the gateway; with a body it posts.
func (s *site) call(path string, body any) (string, error) {
	method, content := http.MethodGet, []byte(nil)
	if body != nil {
		method = http.MethodPost
		var err error
		if content, err = json.Marshal(body); err != nil {
			return "", err
		}
	}
	req, err := http.NewRequest(method, "http://127.0.0.1:"+s.port+path, bytes.NewReader(content))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+s.token())
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: patience}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return string(text), err
}

// ask reads an answer of the JSON API.
func ask[T any](s *site, path string) T {
	s.t.Helper()
	var answer T
	text, err := s.call(path, nil)
	if err == nil {
		err = json.Unmarshal([]byte(text), &answer)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

func (s *site) status() gateway.Status {
	s.t.Helper()
	return ask[gateway.Status](s, "/api/v1/status")
}

// send says something at the web page.
func (s *site) send(conversation, id, text string) {
	s.t.Helper()
	if _, err := s.call("/api/v1/conversations/web/"+conversation+"/messages", map[string]string{"id": id, "text": text}); err != nil {
		s.t.Fatal(err)
	}
}

// history is a conversation of the web page.
func (s *site) history(conversation string) []gateway.Entry {
	s.t.Helper()
	return entriesOf(s, "web", conversation)
}

// entriesOf are the entries of a conversation.
func entriesOf(s *site, channel, conversation string) []gateway.Entry {
	s.t.Helper()
	return ask[gateway.Page[gateway.Entry]](s, "/api/v1/conversations/"+channel+"/"+url.PathEscape(conversation)+"/entries?limit=500").Items
}

// reply waits for the n-th answer in a conversation of the web page.
func (s *site) reply(conversation string, n int) gateway.Entry {
	s.t.Helper()
	var last gateway.Entry
	s.eventually(fmt.Sprintf("answer %d in %s", n, conversation), func() error {
		found := 0
		for _, e := range s.history(conversation) {
			if e.From == gateway.FromAgent {
				found++
				last = e
			}
		}
		if found < n {
			return fmt.Errorf("%d answers so far", found)
		}
		return nil
	})
	return last
}

// logged waits until the host's log has all of the texts in one line.
func (s *site) logged(texts ...string) string {
	s.t.Helper()
	var found string
	s.eventually(fmt.Sprintf("the log says %q", texts), func() error {
		for line := range strings.Lines(s.log.String()) {
			all := true
			for _, text := range texts {
				all = all && strings.Contains(line, text)
			}
			if all {
				found = line
				return nil
			}
		}
		return fmt.Errorf("not yet")
	})
	return found
}

func (s *site) metrics() string {
	text, err := s.call("/metrics", nil)
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
