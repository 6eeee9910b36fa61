package egress

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/internal/netaddr"
)

func parse(text string) (*request, error) {
	head, err := readHead(bufio.NewReader(strings.NewReader(text)), 4096)
	if err != nil {
		return nil, err
	}
	return parseRequest(head)
}

func TestParseRequest(t *testing.T) {
	for _, c := range []struct {
		name, text    string
		host, path    string
		port          uint16
		length        int64
		minor         int
		method, agent string
	}{
		{"plain", "GET http://example.com/a?b HTTP/1.1\r\nHost: example.com\r\nUser-Agent: x\r\n\r\n", "example.com", "/a?b", 80, 0, 1, "GET", "x"},
		{"port", "GET http://example.com:8080/ HTTP/1.1\r\nHost: example.com:8080\r\n\r\n", "example.com", "/", 8080, 0, 1, "GET", ""},
		{"standard port named once", "GET http://example.com:80/ HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com", "/", 80, 0, 1, "GET", ""},
		{"no path", "GET http://example.com HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com", "/", 80, 0, 1, "GET", ""},
		{"query only", "GET http://example.com?x HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com", "/?x", 80, 0, 1, "GET", ""},
		{"two slashes", "GET http://example.com//evil.org/x HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com", "//evil.org/x", 80, 0, 1, "GET", ""},
		{"HTTP/1.0", "GET http://example.com/ HTTP/1.0\r\n\r\n", "example.com", "/", 80, 0, 0, "GET", ""},
		{"length", "POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: 12\r\n\r\n", "example.com", "/", 80, 12, 1, "POST", ""},
		{"chunked", "POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: Chunked\r\n\r\n", "example.com", "/", 80, chunked, 1, "POST", ""},
		{"tunnel", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", "example.com", "", 443, 0, 1, "CONNECT", ""},
		{"tunnel without Host", "CONNECT example.com:443 HTTP/1.1\r\n\r\n", "example.com", "", 443, 0, 1, "CONNECT", ""},
		{"tunnel whose Host has no port", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", "example.com", "", 443, 0, 1, "CONNECT", ""},
		{"IPv6", "GET http://[2606:2800::1]/ HTTP/1.1\r\nHost: [2606:2800::1]\r\n\r\n", "2606:2800::1", "/", 80, 0, 1, "GET", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			path := ""
			if r.url != nil {
				path = r.url.RequestURI()
			}
			if r.Host.Name != c.host || path != c.path || r.Port != c.port || r.length != c.length || r.minor != c.minor || r.Method != c.method || r.header.Get("User-Agent") != c.agent {
				t.Errorf("got %+v, path %q", r, path)
			}
		})
	}
}

func TestParseRequestRefuses(t *testing.T) {
	const good = "Host: example.com\r\n"
	get := func(target, fields string) string { return "GET " + target + " HTTP/1.1\r\n" + fields + "\r\n" }
	post := func(fields string) string { return "POST http://example.com/ HTTP/1.1\r\n" + good + fields + "\r\n" }
	for _, c := range []struct{ name, text, want string }{
		{"NUL in the host", get("http://example.com\x00.evil.org/", good), "0x00"},
		{"escaped NUL in the host", get("http://example.com%00.evil.org/", good), "0x25"},
		{"final dot", get("http://example.com./", "Host: example.com.\r\n"), "dot"},
		{"capitals", get("http://Example.com/", "Host: Example.com\r\n"), "lower case"},
		{"capitals in the Host field", get("http://example.com/", "Host: EXAMPLE.com\r\n"), "lower case"},
		{"user", get("http://example.com@evil.org/", "Host: evil.org\r\n"), "0x40"},
		{"user and password", get("http://a:b@example.com/", good), "port"},
		{"IDN", get("http://exämple.com/", "Host: exämple.com\r\n"), "punycode"},
		{"full-width", get("http://example。com/", good), "punycode"},
		{"backslash", get(`http://evil.org\@example.com/`, good), "path"},
		{"fragment before the path", get("http://example.com#@evil.org/", good), "path"},
		{"fragment", get("http://example.com/#x", good), "path"},
		{"decimal address", get("http://2130706433/", "Host: 2130706433\r\n"), "usual form"},
		{"short address", get("http://127.1/", "Host: 127.1\r\n"), "usual form"},
		{"hexadecimal address", get("http://0x7f.0.0.1/", "Host: x\r\n"), "usual form"},
		{"mapped address", get("http://[::ffff:127.0.0.1]/", "Host: x\r\n"), "short form"},
		{"zone", get("http://[fe80::1%25eth0]/", "Host: x\r\n"), "short form"},
		{"port 0", get("http://example.com:0/", good), "port"},
		{"port with a zero", get("http://example.com:080/", good), "port"},
		{"empty port", get("http://example.com:/", good), "no port"},
		{"origin form", get("/", good), "target"},
		{"https", get("https://example.com/", good), "target"},
		{"file", get("file:///etc/passwd", good), "target"},
		{"capitals in the scheme", get("HTTP://example.com/", good), "target"},
		{"other Host", get("http://example.com/", "Host: evil.org\r\n"), "differs"},
		{"other port in Host", get("http://example.com/", "Host: example.com:8080\r\n"), "differs"},
		{"no Host", get("http://example.com/", ""), "0 Host"},
		{"two Hosts", get("http://example.com/", good+good), "2 Host"},
		{"two Hosts in one", get("http://example.com/", "Host: example.com, evil.org\r\n"), "byte 0x2c"},
		{"Host of a tunnel", "CONNECT example.com:443 HTTP/1.1\r\nHost: evil.org:443\r\n\r\n", "differs"},
		{"tunnel without a port", "CONNECT example.com HTTP/1.1\r\n\r\n", "port"},
		{"tunnel with a URL", "CONNECT http://example.com:443/ HTTP/1.1\r\n\r\n", "more than one colon"},
		{"tunnel with a body", "CONNECT example.com:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n", "no body"},
		{"tunnel in chunks", "CONNECT example.com:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "no body"},
		{"length and chunks", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), "more than once"},
		{"chunks and length", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), "more than once"},
		{"two lengths", post("Content-Length: 5\r\nContent-Length: 5\r\n"), "more than once"},
		{"list of lengths", post("Content-Length: 5, 5\r\n"), "malformed"},
		{"signed length", post("Content-Length: +5\r\n"), "malformed"},
		{"negative length", post("Content-Length: -5\r\n"), "malformed"},
		{"hexadecimal length", post("Content-Length: 0x5\r\n"), "malformed"},
		{"empty length", post("Content-Length: \r\n"), "malformed"},
		{"huge length", post("Content-Length: 99999999999999999999\r\n"), "malformed"},
		{"two codings", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), "more than once"},
		{"list of codings", post("Transfer-Encoding: gzip, chunked\r\n"), "transfer coding"},
		{"unknown coding", post("Transfer-Encoding: xchunked\r\n"), "transfer coding"},
		{"hidden coding", post("Transfer-Encoding: \x0bchunked\r\n"), "0x0b"},
		{"coding in HTTP/1.0", "POST http://example.com/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "transfer coding"},
		{"space before the colon", post("Content-Length : 5\r\n"), "malformed"},
		{"folded line", post("X: a\r\n b\r\n"), "malformed"},
		{"folded length", post("Content-Length:\r\n 5\r\n"), "malformed"},
		{"folded first line", "GET http://example.com/ HTTP/1.1\r\n Host: example.com\r\n\r\n", "malformed"},
		{"no colon", post("nonsense\r\n"), "malformed"},
		{"no name", post(": x\r\n"), "malformed"},
		{"bare LF", "GET http://example.com/ HTTP/1.1\nHost: example.com\n\n", "CR and LF"},
		{"bare LF later", post("X: a\nContent-Length: 5\r\n"), "CR and LF"},
		{"bare CR", post("X: a\rContent-Length: 5\r\n"), "0x0d"},
		{"NUL in a field", post("X: a\x00b\r\n"), "0x00"},
		{"NUL in the path", get("http://example.com/\x00", good), "0x00"},
		{"tab in the request line", "GET\thttp://example.com/ HTTP/1.1\r\n" + good + "\r\n", "three parts"},
		{"two spaces", "GET  http://example.com/ HTTP/1.1\r\n" + good + "\r\n", "three parts"},
		{"HTTP/0.9", "GET http://example.com/\r\n\r\n", "three parts"},
		{"HTTP/2 with prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1"},
		{"HTTP/1.10", "GET http://example.com/ HTTP/1.10\r\n" + good + "\r\n", "HTTP/1.1"},
		{"method in lower case", "Get http://example.com/ HTTP/1.1\r\n" + good + "\r\n", "method"},
		{"TLS", "\x16\x03\x01\x00\x05hello", "not a request to an HTTP proxy"},
		{"SOCKS 5", "\x05\x01\x00", "not a request to an HTTP proxy"},
		{"empty line first", "\r\n" + get("http://example.com/", good), "not a request to an HTTP proxy"},
		{"head too long", get("http://example.com/", good+"X: "+strings.Repeat("x", 5000)+"\r\n"), "too long"},
		{"too many fields", get("http://example.com/", good+strings.Repeat("X: y\r\n", maxFields)), "header lines"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r, err := parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v (%v), want %q", r, err, c.want)
			}
		})
	}
}

// FuzzRequest checks that what is accepted is understood alike by the standard library, which stands for the servers
// beyond, and that nothing survives that could be taken for more than one request.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("GET http://example.com/a?b HTTP/1.1\r\nHost: example.com\r\n\r\n"))
	f.Add([]byte("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"))
	f.Add([]byte("POST http://example.com:81/ HTTP/1.1\r\nHost: example.com:81\r\nTransfer-Encoding: chunked\r\nConnection: x\r\n\r\n"))
	f.Add([]byte("POST http://example.com HTTP/1.0\r\nContent-Length: 5\r\nX: \xff\r\n\r\n"))
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		head, err := readHead(bufio.NewReaderSize(bytes.NewReader(text), 16), 4096)
		if err != nil {
			return
		}
		r, err := parseRequest(head)
		if err != nil {
			return
		}
		if _, err := netaddr.ParseHost(bracketed(r.Host)); err != nil || r.Port == 0 || r.length < chunked {
			t.Fatalf("accepted %+v (%v)", r, err)
		}
		other, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(slices.Concat(head, []byte("\r\n")))))
		if err != nil {
			t.Skip() // it is stricter in places, which harms nobody
		}
		if other.Method != r.Method || other.ContentLength != r.length || other.URL.Hostname() != r.Host.Name {
			t.Errorf("%q: taken for %s %s of %d bytes, by others for %s %s of %d", head, r.Method, r.Host.Name, r.length, other.Method, other.URL.Hostname(), other.ContentLength)
		}
	})
}

func bracketed(h netaddr.Host) string {
	if h.IsAddr() && h.Addr.Is6() {
		return "[" + h.Name + "]"
	}
	return h.Name
}

func TestStrip(t *testing.T) {
	h := http.Header{
		"Connection": {"close, X-Secret", "x-other"}, "X-Secret": {"1"}, "X-Other": {"1"}, "Keep-Alive": {"1"}, "Te": {"1"}, "Upgrade": {"h2c"},
		"Http2-Settings": {"1"}, "Proxy-Authorization": {"1"}, "Proxy-Authenticate": {"1"}, "Proxy-Connection": {"1"}, "Trailer": {"1"}, "Accept": {"1"},
	}
	strip(h)
	if len(h) != 1 || h.Get("Accept") != "1" {
		t.Errorf("left %v", h)
	}
}

func TestStatus(t *testing.T) {
	if _, err := parse("PRI * HTTP/2.0\r\n\r\n"); statusOf(err) != http.StatusHTTPVersionNotSupported {
		t.Errorf("HTTP/2: %d", statusOf(err))
	}
	if statusOf(errors.New("x")) != http.StatusBadRequest {
		t.Error("the usual status is 400")
	}
}
