package egress

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// repeat is a server that says the credential again, in a place that the request's path names.
func repeat(w http.ResponseWriter, r *http.Request) {
	said := r.Header.Get("Authorization")
	page := []byte("you said " + said + ", did you not")
	switch r.URL.Path {
	case "/page", "/range":
		// As http.ServeContent does, and many a server of files that a program has made.
		var from, to int
		if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); n == 2 {
			w.WriteHeader(http.StatusPartialContent)
			page = page[from : to+1]
		}
		_, _ = w.Write(page)
		return
	case "/trailer":
		w.Header().Set("Trailer", "X-Said")
		_, _ = w.Write([]byte("ok"))
		w.Header().Set("X-Said", said)
		return
	case "/gzip", "/x-gzip":
		w.Header().Set("Content-Encoding", r.URL.Path[1:])
		z := gzip.NewWriter(w)
		_, _ = z.Write(page)
		_ = z.Close()
		return
	case "/br":
		w.Header().Set("Content-Encoding", "br")
		_, _ = w.Write(page)
		return
	}
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	head := "200 OK\r\n"
	switch r.URL.Path {
	case "/reason":
		head = "200 " + said + "\r\n"
	case "/name":
		head = "200 OK\r\n" + strings.TrimPrefix(said, "Bearer ") + ": 1\r\nX-" + strings.ToUpper(strings.TrimPrefix(said, "Bearer ")) + ": 1\r\n"
	case "/early":
		head = "103 Early Hints\r\nLink: <" + said + ">\r\n\r\nHTTP/1.1 200 OK\r\n"
	}
	fmt.Fprintf(buf, "HTTP/1.1 %sContent-Length: 2\r\nConnection: close\r\n\r\nok", head)
	_ = buf.Flush()
}

// A server that repeats the credential does not give it away, wherever in its answer it does so.
func TestCredentialIsNotRepeated(t *testing.T) {
	server := newAPI(t, "example.com")
	server.Config.Handler = http.HandlerFunc(repeat)
	g := guard(t, server.Server, server.roots, credential(t, "example.com"))
	for _, c := range []struct{ name, path, line, status, want string }{
		{"body", "/page", "X: y", "200 OK", "you said Bearer ***"},
		{"reason", "/reason", "X: y", "200 OK", "ok"},
		{"name of a header", "/name", "X: y", "200 OK", "ok"},
		{"trailer", "/trailer", "TE: trailers", "200 OK", "ok"},
		{"answer before the answer", "/early", "X: y", "200 OK", "ok"},
		{"first half", "/range", "Range: bytes=0-26", "200 OK", "did you not"},
		{"second half", "/range", "Range: bytes=27-60", "200 OK", "you said Bearer ***"},
		{"compressed", "/gzip", "Accept-Encoding: gzip", "200 OK", "you said Bearer ***"},
		{"compressed, by the other name", "/x-gzip", "Accept-Encoding: gzip", "200 OK", "you said Bearer ***"},
		{"compressed in a way that is not known here", "/br", "Accept-Encoding: br", "502 Bad Gateway", "cannot be searched"},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer, err := g.through("example.com", inner("GET", c.path, c.line))
			if err != nil || !strings.HasPrefix(answer, "HTTP/1.1 "+c.status) || !strings.Contains(answer, c.want) {
				t.Errorf("got %q (%v)", answer, err)
			}
			lower := strings.ToLower(answer)
			for n := 8; n <= len(token); n++ { // not even a good part of it
				if strings.Contains(lower, token[:n]) || strings.Contains(lower, token[len(token)-n:]) {
					t.Fatalf("%q has %d bytes of the credential", answer, n)
				}
			}
			response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
			if err == nil {
				_, err = io.Copy(io.Discard, response.Body)
			}
			if err != nil {
				t.Errorf("%q is no answer: %v", answer, err)
			}
		})
	}
	t.Run("no body at all", func(t *testing.T) {
		answer, err := g.through("example.com", inner("HEAD", "/gzip"))
		if err != nil || !strings.HasPrefix(answer, "HTTP/1.1 200 OK") || !strings.HasSuffix(answer, "\r\n\r\n") {
			t.Errorf("got %q (%v)", answer, err)
		}
	})
}

// A body that is not in its declared form ends the answer, and is not passed on.
func TestBrokenCompression(t *testing.T) {
	var whole bytes.Buffer
	z := gzip.NewWriter(&whole)
	_, _ = z.Write([]byte(token))
	_ = z.Close()
	for name, text := range map[string]string{"no gzip": token, "cut": whole.String()[:whole.Len()-9], "more behind it": whole.String() + token} {
		p, err := io.ReadAll(inflate(strings.NewReader(text)))
		if name != "cut" && err == nil || strings.Count(string(p), token) > 1 || name == "no gzip" && len(p) > 0 {
			t.Errorf("%s: %q (%v)", name, p, err)
		}
	}
	if p, err := io.ReadAll(inflate(strings.NewReader(""))); err != nil || len(p) != 0 {
		t.Errorf("nothing: %q (%v)", p, err)
	}
}
