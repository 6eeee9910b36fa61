package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/flynnhost/flynn/host/internal/netaddr"
)

const (
	maxFields = 128
	chunked   = -1 // value of request.length
)

// request is the header of a request to a proxy (RFC 9112, 3.2.2 and 3.2.3).
type request struct {
	netaddr.Target
	url    *url.URL // path and query only; nil for CONNECT
	minor  int      // of HTTP/1
	header http.Header
	length int64 // of the body, in bytes, or chunked
	expect bool  // the program waits for 100 Continue
	// encrypted is set if the host is reached by TLS, inside if the request came through a terminated tunnel.
	encrypted, inside bool
	// added are the fields that the proxy adds; secrets are texts in them that must not come back.
	added   http.Header
	secrets []string
}

var errHead = errors.New("the request's head is too long")

// readHead returns everything before the first empty line.
func readHead(r *bufio.Reader, most int) ([]byte, error) {
	first, err := r.Peek(1)
	if err != nil {
		return nil, err
	}
	if first[0] < 'A' || first[0] > 'Z' {
		return nil, errors.New("not a request to an HTTP proxy")
	}
	var head []byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if string(line) == "\r\n" && bytes.HasSuffix(head, []byte("\r\n")) {
			return head, nil
		}
		if len(head)+len(line) > most {
			return nil, refuse(http.StatusRequestHeaderFieldsTooLarge, errHead)
		}
		head = append(head, line...)
		if err == nil && !bytes.HasSuffix(head, []byte("\r\n")) {
			return nil, errors.New("a line of the request's head does not end with CR and LF")
		}
	}
}

// parseRequest parses the result of readHead. It accepts nothing that the standards leave to the recipient.
func parseRequest(head []byte) (*request, error) {
	return (&request{header: http.Header{}}).parse(head)
}

// parseInner parses the header of a request inside a tunnel, whose target is a path only.
func parseInner(head []byte, tunnel netaddr.Target) (*request, error) {
	r := &request{Target: tunnel, header: http.Header{}, encrypted: true, inside: true}
	return r.parse(head)
}

func (r *request) parse(head []byte) (*request, error) {
	text, ok := strings.CutSuffix(string(head), "\r\n")
	if !ok {
		return nil, errors.New("the request has no request line")
	}
	lines := strings.Split(text, "\r\n")
	for _, line := range lines {
		if i := strings.IndexFunc(line, isControl); i >= 0 {
			return nil, fmt.Errorf("the request's head contains the byte %#02x", line[i])
		}
	}
	target, err := r.readLine(lines[0])
	if err != nil {
		return nil, err
	}
	if err := r.readFields(lines[1:]); err != nil {
		return nil, err
	}
	if err := r.readTarget(target); err != nil {
		return nil, err
	}
	if err := r.checkHost(); err != nil {
		return nil, err
	}
	return r, r.readLength()
}

func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// readLine parses "METHOD target HTTP/1.x".
func (r *request) readLine(line string) (target string, err error) {
	parts := strings.Split(line, " ")
	if len(parts) != 3 || strings.Contains(line, "\t") {
		return "", errors.New("the request line does not have three parts")
	}
	r.Method = parts[0]
	if r.Method == "" || len(r.Method) > 32 || strings.Trim(r.Method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
		return "", errors.New("the request's method is malformed")
	}
	switch parts[2] {
	case "HTTP/1.1":
		r.minor = 1
	case "HTTP/1.0":
	default:
		return "", refuse(http.StatusHTTPVersionNotSupported, errors.New("the proxy speaks HTTP/1.1 and HTTP/1.0 only"))
	}
	return parts[1], nil
}

// readFields parses the header lines. A continuation line (obs-fold) has no name and is refused as malformed.
func (r *request) readFields(lines []string) error {
	if len(lines) > maxFields {
		return refuse(http.StatusRequestHeaderFieldsTooLarge, fmt.Errorf("the request has more than %d header lines", maxFields))
	}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return errors.New("a header line of the request is malformed")
		}
		r.header.Add(name, value)
	}
	return nil
}

// readTarget parses "host:port" of CONNECT, or "http://host[:port]/path".
func (r *request) readTarget(target string) error {
	if r.inside {
		return r.readPath(target)
	}
	if r.Method == http.MethodConnect {
		return r.readAuthority(target, "")
	}
	rest, ok := strings.CutPrefix(target, "http://")
	if !ok {
		return errors.New("the request's target must be http://host/path, or host:port in CONNECT")
	}
	end := strings.IndexAny(rest, "/?#\\")
	if end < 0 {
		end = len(rest)
	}
	if err := r.readAuthority(rest[:end], "80"); err != nil {
		return err
	}
	path := rest[end:]
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return r.readPath(path)
}

// readPath parses "/path?query".
func (r *request) readPath(path string) error {
	if r.Method == http.MethodConnect || !strings.HasPrefix(path, "/") {
		return errors.New("the target of a request inside a tunnel must be /path")
	}
	var err error
	r.url, err = url.ParseRequestURI(path)
	if err != nil || strings.ContainsAny(path, "#\\") {
		return errors.New("the request's path is malformed")
	}
	return nil
}

func (r *request) readAuthority(text, port string) error {
	name, named, err := netaddr.SplitPort(text)
	if err != nil {
		return err
	}
	if named != "" {
		port = named
	}
	if r.Host, err = netaddr.ParseHost(name); err != nil {
		return err
	}
	r.Port, err = netaddr.ParsePort(port)
	return err
}

// checkHost requires that the Host field equals the target. A request inside a tunnel may omit it.
func (r *request) checkHost() error {
	fields := r.header["Host"]
	if len(fields) == 0 && (r.minor == 0 || r.Method == http.MethodConnect) {
		return nil
	}
	if len(fields) != 1 {
		return fmt.Errorf("the request has %d Host fields", len(fields))
	}
	name, port, err := netaddr.SplitPort(fields[0])
	if err != nil {
		return err
	}
	host, err := netaddr.ParseHost(name)
	if err != nil {
		return err
	}
	standard := r.Method == http.MethodConnect || r.Port == 80 && !r.inside || r.Port == 443 && r.inside
	if host != r.Host || port != strconv.Itoa(int(r.Port)) && (port != "" || !standard) {
		return errors.New("the Host field differs from the request's target")
	}
	return nil
}

// readLength determines the length of the body. Ambiguous lengths are refused (RFC 9112, 6.3).
func (r *request) readLength() error {
	encodings, lengths := r.header["Transfer-Encoding"], r.header["Content-Length"]
	r.expect = strings.EqualFold(r.header.Get("Expect"), "100-continue")
	switch {
	case len(encodings)+len(lengths) > 1:
		return errors.New("the request declares its length more than once")
	case r.Method == http.MethodConnect && (len(encodings) > 0 || len(lengths) > 0 && lengths[0] != "0"):
		return errors.New("a CONNECT request has no body")
	case len(encodings) == 1 && (r.minor == 0 || !strings.EqualFold(encodings[0], "chunked")):
		return refuse(http.StatusNotImplemented, errors.New("the only transfer coding is chunked, in HTTP/1.1"))
	case len(encodings) == 1:
		r.length = chunked
	case len(lengths) == 1:
		n, err := strconv.ParseUint(lengths[0], 10, 63)
		if err != nil || strings.Trim(lengths[0], "0123456789") != "" {
			return errors.New("the request's Content-Length is malformed")
		}
		r.length = int64(n)
	}
	return nil
}

// field returns the Host field for the server, without the port that the program named if the request is upgraded to TLS.
func (r *request) field() string {
	if r.encrypted && !r.inside {
		return hostField(r.Host, r.Port)
	}
	return r.header.Get("Host")
}

// hostField formats a Host field (RFC 9110, 7.2).
func hostField(h netaddr.Host, port uint16) string {
	name := h.Name
	if h.Addr.Is6() {
		name = "[" + name + "]"
	}
	if port == 443 {
		return name
	}
	return name + ":" + portText(port)
}
