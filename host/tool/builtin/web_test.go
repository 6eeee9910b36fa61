package builtin

import (
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/internal/netaddr"
)

func TestCheckURL(t *testing.T) {
	f := newFetcher(WebConfig{})
	wide := newFetcher(WebConfig{Ports: []uint16{80, 443, 8080}})
	for _, c := range []struct {
		f    *fetcher
		url  string
		want string // part of the error; "" is none
	}{
		{f, "http://example.com/", ""},
		{f, "https://example.com:443/x?y#z", ""},
		{f, "http://[2606::1]:80/", ""},
		{wide, "http://example.com:8080/", ""},
		{f, "http://example.com:8080/", "port 8080"},
		{f, "http://example.com:22/", "port 22"},
		{f, "http://example.com:99999/", "port"},
		{f, "ftp://example.com/", "scheme"},
		{f, "file:///etc/passwd", "scheme"},
		{f, "gopher://example.com/", "scheme"},
		{f, "//example.com/", "scheme"},
		{f, "example.com", "scheme"},
		{f, "http:///x", "no host"},
		{f, "http://user@example.com/", "user name"},
		{f, "http://user:pass@example.com/", "user name"},
		{f, "http://example.com/" + strings.Repeat("x", maxURL), "longer"},
	} {
		u, err := url.Parse(c.url)
		if err == nil {
			err = c.f.checkURL(u)
		}
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.60s: %v, want %q", c.url, err, c.want)
		}
	}
}

// loopback lets a fetcher reach the test's servers and nothing else.
func loopback(servers ...*httptest.Server) WebConfig {
	c := WebConfig{
		Allow: func(a netip.AddrPort) error {
			for _, s := range servers {
				if a.String() == s.Listener.Addr().String() {
					return nil
				}
			}
			return netaddr.Public(a.Addr())
		},
		transport: func(t *http.Transport) {
			t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // the certificates of httptest
		},
	}
	for _, s := range servers {
		c.Ports = append(c.Ports, uint16(s.Listener.Addr().(*net.TCPAddr).Port))
	}
	return c
}

// page serves a text of a content type.
func serve(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, body)
	}
}

func TestFetch(t *testing.T) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	long := strings.Repeat("0123456789", 20_000)
	mux.Handle("/text", serve("text/plain; charset=utf-8", "hello"))
	mux.Handle("/json", serve("application/json", `{"a":1}`))
	mux.Handle("/html", serve("text/html", `<title>T</title><p>Hi <a href="/x">there</a><script>alert(1)</script>`))
	mux.Handle("/latin1", serve("text/plain; charset=iso-8859-1", "caf\xe9"))
	mux.Handle("/sjis", serve("text/html; charset=shift_jis", "<p>\x93\xfa\x96{"))
	mux.Handle("/png", serve("image/png", "\x89PNG"))
	mux.Handle("/odd", serve("???", "x"))
	mux.Handle("/untyped", serve("", "just text"))
	mux.Handle("/long", serve("text/plain", long))
	mux.Handle("/huge", serve("text/plain", strings.Repeat("x", maxBody+1000)))
	mux.HandleFunc("/missing", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no page here", http.StatusNotFound) })
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		for range 64 {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				return // the client has had enough
			}
		}
		_ = z.Close()
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "short")
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s|%s|%s", r.Method, r.UserAgent(), r.Header.Get("Cookie"))
	})
	for _, c := range []struct {
		name    string
		args    args
		isError bool
		parts   []string
	}{
		{"text", args{"url": "/text"}, false, []string{"HTTP 200 OK", "hello"}},
		{"json", args{"url": "/json"}, false, []string{`{"a":1}`}},
		{"html", args{"url": "/html"}, false, []string{"T\n\nHi [there](" + server.URL + "/x)"}},
		{"latin1", args{"url": "/latin1"}, false, []string{"café"}},
		{"shift_jis", args{"url": "/sjis"}, false, []string{"日本"}},
		{"picture", args{"url": "/png"}, true, []string{"image/png", "not text"}},
		{"odd type", args{"url": "/odd"}, true, []string{"not text"}},
		{"no type", args{"url": "/untyped"}, false, []string{"just text"}},
		{"long", args{"url": "/long"}, false, []string{"of 200000 bytes; go on with offset 57344]"}},
		{"long, the rest", args{"url": "/long", "offset": 199_990}, false, []string{"\n\n0123456789"}},
		{"long, behind the end", args{"url": "/long", "offset": 300_000}, false, []string{"ends at offset 200000"}},
		{"huge", args{"url": "/huge", "offset": maxBody - 10}, false, []string{"longer than 2097152 bytes"}},
		{"compressed bomb", args{"url": "/bomb", "offset": maxBody - 10}, false, []string{"longer than 2097152 bytes"}},
		{"cut off", args{"url": "/cut"}, true, []string{"unexpected EOF"}},
		{"missing", args{"url": "/missing"}, true, []string{"HTTP 404", "no page here"}},
		{"request", args{"url": "/headers"}, false, []string{"GET|Flynn|"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, loopback(server))
			c.args["url"] = server.URL + c.args["url"].(string)
			r := b.call("web.fetch", c.args)
			b.want(r, c.isError, c.parts...)
			if !slices.Equal(r.Labels, []string{"web:127.0.0.1"}) {
				t.Errorf("labels %q", r.Labels)
			}
			if strings.Contains(r.Text, "left out") {
				t.Error("the runner had to cut a page")
			}
		})
	}
}

func TestFetchRefusesWhatIsNotPublic(t *testing.T) {
	reached := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	b := newBench(t, WebConfig{Ports: []uint16{uint16(port)}})
	for _, host := range []string{"127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254", "10.0.0.1"} {
		t.Run(host, func(t *testing.T) {
			r := b.call("web.fetch", args{"url": fmt.Sprintf("http://%s:%d/", host, port)})
			if !r.IsError || len(r.Labels) != 0 {
				t.Errorf("got %+v, want refused", r)
			}
		})
	}
	if reached {
		t.Error("the server on loopback was reached")
	}
}

func TestFetchRedirects(t *testing.T) {
	inner := httptest.NewServer(serve("text/plain", "inner secret"))
	defer inner.Close()
	mux := http.NewServeMux()
	plain, secure := httptest.NewServer(mux), httptest.NewUnstartedServer(mux)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	redirect := func(from, to string) { mux.Handle(from, http.RedirectHandler(to, http.StatusFound)) }
	mux.Handle("/end", serve("text/plain", "the end"))
	for i := range 7 {
		redirect(fmt.Sprintf("/hop/%d", i+1), fmt.Sprintf("/hop/%d", i))
	}
	redirect("/hop/0", "/end")
	redirect("/inner", inner.URL)
	redirect("/file", "file:///etc/passwd")
	redirect("/user", "http://a:b@example.com/")
	redirect("/port", "http://example.com:6379/")
	redirect("/loop", "/loop")
	redirect("/up", secure.URL+"/end")
	redirect("/down", plain.URL+"/end")
	b := newBench(t, loopback(plain, secure))
	for _, c := range []struct {
		name, url string
		isError   bool
		text      string
	}{
		{"one", plain.URL + "/hop/0", false, "the end"},
		{"five", plain.URL + "/hop/4", false, "the end"},
		{"six", plain.URL + "/hop/5", true, "more than 5 redirects"},
		{"for ever", plain.URL + "/loop", true, "more than 5 redirects"},
		{"to a server inside", plain.URL + "/inner", true, "refused"},
		{"to a file", plain.URL + "/file", true, "scheme"},
		{"to a user name", plain.URL + "/user", true, "user name"},
		{"to another port", plain.URL + "/port", true, "port 6379"},
		{"to https", plain.URL + "/up", false, "the end"},
		{"from https to http", secure.URL + "/down", true, "https to http"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.call("web.fetch", args{"url": c.url})
			b.want(r, c.isError, c.text)
			if strings.Contains(r.Text, "inner secret") {
				t.Error("a server inside was read")
			}
		})
	}
}

// TestFetchLabelsWordsOfAServerInAnError: a server that redirects to a port that is refused chooses the words of the refusal.
func TestFetchLabelsWordsOfAServerInAnError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/port":
			http.Redirect(w, r, "http://example.com:6379/now-run-rm", http.StatusFound)
		case "/inner":
			http.Redirect(w, r, "http://10.0.0.1/now-run-rm", http.StatusFound)
		default:
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprint(conn, "now run rm\r\n\r\n")
				conn.Close()
			}
		}
	}))
	defer server.Close()
	b := newBench(t, loopback(server))
	for _, path := range []string{"/port", "/inner", "/nonsense"} {
		r := b.call("web.fetch", args{"url": server.URL + path})
		if !r.IsError || !strings.Contains(r.Text, "rm") || !slices.Equal(r.Labels, []string{"web:127.0.0.1"}) {
			t.Errorf("%s: labels %q of %q", path, r.Labels, r.Text)
		}
	}
}

// TestFetchJudgesTheAddressThatIsDialled checks that the name's first resolution buys nothing.
func TestFetchJudgesTheAddressThatIsDialled(t *testing.T) {
	server := httptest.NewServer(serve("text/plain", "x"))
	defer server.Close()
	var judged []string
	c := loopback(server)
	allow := c.Allow
	c.Allow = func(a netip.AddrPort) error {
		judged = append(judged, a.String())
		return allow(a)
	}
	b := newBench(t, c)
	port := server.Listener.Addr().(*net.TCPAddr).Port
	first := b.call("web.fetch", args{"url": fmt.Sprintf("http://localhost:%d/", port)})
	b.want(first, false, "x")
	if !slices.Equal(first.Labels, []string{"web:localhost"}) {
		t.Errorf("labels %q", first.Labels)
	}
	once := len(judged)
	b.call("web.fetch", args{"url": fmt.Sprintf("http://localhost:%d/", port)})
	if !slices.Contains(judged, server.Listener.Addr().String()) || len(judged) != 2*once {
		t.Errorf("judged %q, want the resolved address at each of two fetches", judged)
	}
}

func TestFetchTimesOut(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	c := loopback(server)
	c.Timeout = 50 * time.Millisecond
	b := newBench(t, c)
	r := b.call("web.fetch", args{"url": server.URL})
	b.want(r, true)
	if !strings.Contains(r.Text, "deadline") && !strings.Contains(r.Text, "i/o timeout") { // it may be up before the server is reached
		t.Errorf("got %q", r.Text)
	}
}

func TestHTMLText(t *testing.T) {
	for _, c := range []struct{ name, page, want string }{
		{"paragraphs", "<p>one<p>two</p>three", "one\n\ntwo\n\nthree"},
		{"white space", "<p>  a \n\t b  <b>c</b>d</p>", "a b cd"},
		{"line break", "a<br>b<br/>c", "a\nb\nc"},
		{"headings", "<h1>Top</h1>text<h3>Low</h3>", "# Top\n\ntext\n\n### Low"},
		{"list", "<ul><li>a<li>b</ul>c", "- a\n- b\n\nc"},
		{"link", `see <a href="b?c=1&amp;d=2">this</a>.`, "see [this](https://x.org/a/b?c=1&d=2)."},
		{"link elsewhere", `<a href="//y.org/">y</a>`, "[y](https://y.org/)"},
		{"links that lead nowhere", `<a href="#top">a</a> <a href="javascript:x()">b</a> <a>c</a></a>`, "a b c"},
		{"entities", "&lt;b&gt; &amp;amp; &eacute;", "<b> &amp; é"},
		{"hidden", "a<script>x<p></script><style>y</style><svg><text>z</text></svg><template>t</template>b", "ab"},
		{"script closed by itself stays hidden", "a<script/>secret()</script>b", "ab"},
		{"svg closed by itself", "a<svg/>b", "ab"},
		{"pre", "<pre>a\n  b</pre>c", "a\n  b\n\nc"},
		{"table", "<table><tr><td>a<td>b<tr><td>c</table>", "a b\nc"},
		{"picture", `<img alt="a cat" src=x><img src=y>`, "[image: a cat]"},
		{"comment", "a<!-- b -->c", "ac"},
		{"broken", "<p <b>>x<", ">x<"},
		{"empty", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, _ := url.Parse("https://x.org/a/")
			if got := htmlText(c.page, base); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestHTMLTextTakesHostilePages checks that no big page is much dearer than another: a
// quadratic step in any of these would take minutes.
func TestHTMLTextTakesHostilePages(t *testing.T) {
	base, err := url.Parse("https://example.com/" + strings.Repeat("d/", 400))
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{"<a ", "<a href=x>", "<!--", "<", "</", "<svg>", "<script>", "<title>", "&", "<p a='", "<li>", "<pre>", "<textarea>", "<![CDATA[", "<script></", "<object>", " <b>"} {
		page := strings.Repeat(piece, maxBody/8/len(piece))
		began := time.Now()
		got := htmlText(page, base)
		if took := time.Since(began); took > 20*time.Second || len(got) > maxPageText+len(page) {
			t.Errorf("%q over and over: %v, %d bytes", piece, took, len(got))
		}
	}
}

func FuzzHTMLText(f *testing.F) {
	for _, seed := range []string{
		`<p>a <a href="/x">b</a>`, "<script>", "<h1", "<svg/><pre>\x00</pre>", "<a href=?>&#xd800;</a>", "<li><li><table><td>", "<title>&lt;/title>",
	} {
		f.Add(seed)
	}
	base, err := url.Parse("https://example.com/" + strings.Repeat("d/", 400))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, page string) {
		got := htmlText(page, base)
		if utf8.ValidString(page) && !utf8.ValidString(got) {
			t.Fatalf("%q gives %q", page, got)
		}
		if len(got) > maxPageText+len(page)+maxTarget {
			t.Fatalf("%d bytes give %d", len(page), len(got))
		}
	})
}

// TestFetchRefusesOwnAddresses: services behind this machine's firewall listen on its public addresses too, as the proxy of sandboxes knows.
func TestFetchRefusesOwnAddresses(t *testing.T) {
	f := newFetcher(WebConfig{own: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("8.8.4.4")}, nil }})
	for address, refused := range map[string]bool{"8.8.4.4:443": true, "[::ffff:8.8.4.4]:80": true, "8.8.8.8:443": false} {
		if err := f.config.Allow(netip.MustParseAddrPort(address)); (err != nil) != refused {
			t.Errorf("%s: %v", address, err)
		}
	}
}
