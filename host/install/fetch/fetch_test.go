package fetch

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/install/digest"
	"github.com/flynnhost/flynn/host/install/signing"
)

func TestParse(t *testing.T) {
	sum := digest.Of(nil)
	for _, c := range []struct{ name, text, want, says string }{
		{"its digest", "https://example.com/p.tar.gz#sha256=" + sum, "https://example.com/p.tar.gz", ""},
		{"its digest in capitals", "https://example.com/p?x=y#sha256=" + strings.ToUpper(sum), "https://example.com/p?x=y", ""},
		{"no digest", "https://example.com/p", "https://example.com/p", ""},
		{"half a digest", "https://example.com/p#sha256=00", "", "must be #sha256="},
		{"another fragment", "https://example.com/p#x", "", "must be #sha256="},
		{"a digest of another kind", "https://example.com/p#md5=" + sum, "", "must be #sha256="},
		{"a password", "https://u:p@example.com/p", "", "without a password"},
		{"another scheme", "http://example.com/p", "", "must be an https URL"},
		{"a file", "file:///etc/passwd", "", "must be an https URL"},
		{"no host", "https:///p", "", "must be an https URL"},
		{"no URL", "https://%zz", "", "must be an https URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := Parse(c.text, "https")
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want %q", err, c.says)
				}
			} else if err != nil || a.String() != c.want {
				t.Errorf("got %v, %v", a, err)
			}
		})
	}
	if _, err := Parse("ftp://example.com/p", "http", "https"); err == nil || !strings.Contains(err.Error(), "an http or https URL") {
		t.Errorf("got %v", err)
	}
}

func TestTrust(t *testing.T) {
	keys := signing.Trust{Keys: []signing.Key{"ed25519:x"}, Table: "[trust]"}
	for _, c := range []struct {
		name, text string
		trust      signing.Trust
		required   bool
		says       string
	}{
		{"a digest", "https://example.com/p#sha256=" + digest.Of(nil), signing.Trust{}, false, ""},
		{"a digest, and keys", "https://example.com/p#sha256=" + digest.Of(nil), keys, false, ""},
		{"keys", "https://example.com/p", keys, true, ""},
		{"nothing", "https://example.com/p", signing.Trust{Table: "[trust]"}, false, "add #sha256=DIGEST, or pin the author's key in [trust]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := Parse(c.text, "https")
			if err != nil {
				t.Fatal(err)
			}
			got, err := a.Trust(c.trust)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want %q", err, c.says)
				}
			} else if err != nil || got.Required != c.required {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestGet(t *testing.T) {
	content := []byte("an archive")
	mux := http.NewServeMux()
	mux.HandleFunc("/p", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/p", http.StatusFound) })
	mux.HandleFunc("/plain", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/p", http.StatusFound)
	})
	mux.HandleFunc("/secret", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://u:p@"+r.Host+"/p", http.StatusFound)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	secure, plain := httptest.NewTLSServer(mux), httptest.NewServer(mux)
	defer secure.Close()
	defer plain.Close()
	sum := "#sha256=" + digest.Of(content)
	for _, c := range []struct {
		name, url string
		most      int64
		says      string
	}{
		{"with its digest", secure.URL + "/p" + sum, 10, ""},
		{"without", secure.URL + "/p", 10, ""},
		{"moved", secure.URL + "/moved" + sum, 10, ""},
		{"plain with its digest", plain.URL + "/p" + sum, 10, ""},
		{"another digest", secure.URL + "/p#sha256=" + strings.Repeat("0", 64), 10, "the downloaded file has the digest " + sum[8:]},
		{"too long", secure.URL + "/p" + sum, 9, "more than 9 bytes"},
		{"leaves https", secure.URL + "/plain" + sum, 10, "a redirect leads from https to http"},
		{"to a password", secure.URL + "/secret" + sum, 10, "a redirect holds a password"},
		{"for ever", secure.URL + "/round" + sum, 10, "more than 5 redirects"},
		{"not there", secure.URL + "/none" + sum, 10, "404"},
	} {
		t.Run(c.name, func(t *testing.T) {
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}}
			defer transport.CloseIdleConnections()
			a, err := Parse(c.url, "http", "https")
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			err = Client{Transport: transport}.Get(t.Context(), a, &got, c.most)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want %q", err, c.says)
				}
			} else if err != nil || !bytes.Equal(got.Bytes(), content) {
				t.Errorf("got %q, %v", &got, err)
			}
		})
	}
	a, err := Parse(plain.URL+"/p"+sum, "http")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := (Client{}).Get(t.Context(), a, &got, 10); err == nil || !strings.Contains(err.Error(), "--allow-private") {
		t.Errorf("a private address: %v", err)
	}
	if err := (Client{Private: true}).Get(t.Context(), a, &got, 10); err != nil {
		t.Errorf("a private address that is allowed: %v", err)
	}
}
