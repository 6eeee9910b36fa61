package egress

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/flynnhost/flynn/host/internal/netaddr"
)

// Credential is a secret that the proxy adds to requests to a host. Programs inside may send a placeholder or nothing: their value of the
// header is replaced.
//
// The port decides how the host is reached. On port 80, requests and the secret are sent in plain text. On any other port they are sent by
// TLS, which the proxy terminates towards the program (terminate.go) and opens anew, verified, towards the host. With Upgrade, a program
// may also ask for http://, and the host is still reached by TLS. A plain request to such a port carries no secret.
type Credential struct {
	Rule   netaddr.Rule // one port
	Header string       // such as Authorization, in the spelling that is sent
	Prefix string
	// Value returns the current secret. It is called for each request, and its result is never printed.
	Value func() string
	// Methods are the allowed methods, and Paths the prefixes of allowed paths; if empty, all are allowed.
	Methods, Paths []string
	Upgrade        bool
	// Address, if valid, is the private address at which the operator places the host: its name is not resolved, and the host is reached
	// only by requests that carry this credential. They use TLS, verified for the host's name, or plain HTTP if Plain is set.
	Address netip.AddrPort
	Plain   bool
}

// plainPort is the port on which a credential is sent in plain text.
const plainPort = 80

// ParseCredential parses the host of a credential: a rule of an allowlist with at most one port, by default 443.
func ParseCredential(host string) (netaddr.Rule, error) {
	if strings.Contains(host, " ") {
		return netaddr.Rule{}, errors.New("the host must not contain methods; list them under methods")
	}
	name, port, err := netaddr.SplitPort(host)
	if err != nil {
		return netaddr.Rule{}, err
	}
	if port == "" {
		port = "443"
	}
	return netaddr.ParseRule(name + ":" + port)
}

// ParseAddress parses the address of a credential: "https://192.168.1.10:4000", or http:// for plain HTTP.
func ParseAddress(text string) (addr netip.AddrPort, plain bool, err error) {
	rest, encrypted := strings.CutPrefix(text, "https://")
	if !encrypted {
		if rest, plain = strings.CutPrefix(text, "http://"); !plain {
			return netip.AddrPort{}, false, fmt.Errorf("address %q does not begin with https:// or http://", clip(text))
		}
	}
	addr, err = netip.ParseAddrPort(rest)
	if err != nil || addr.Port() == 0 || addr.String() != rest {
		return netip.AddrPort{}, false, fmt.Errorf("address %q is not one IP address with a port; names are not resolved", clip(text))
	}
	return addr, plain, netaddr.Private(addr.Addr())
}

// Place returns the address in the form that ParseAddress parses.
func (c Credential) Place() string {
	if c.Plain {
		return "http://" + c.Address.String()
	}
	return "https://" + c.Address.String()
}

// checkAddress refuses an address unless the rule is for one host name and not on port 80.
func (c Credential) checkAddress() error {
	if !c.Address.IsValid() {
		return nil
	}
	if host, below := c.Rule.Host(); below || host.IsAddr() || c.port() == plainPort {
		return errors.New("an address requires a rule for one host name, on a port other than 80")
	}
	return netaddr.Private(c.Address.Addr())
}

// Check refuses a credential that cannot be sent, or not without changing the meaning of the request.
func (c Credential) Check() error {
	switch {
	case !httpguts.ValidHeaderFieldName(c.Header):
		return fmt.Errorf("header %q is not a valid header name", c.Header)
	case slices.ContainsFunc(hopByHop[:], func(name string) bool { return strings.EqualFold(name, c.Header) }):
		return fmt.Errorf("header %q is set by the proxy itself", c.Header)
	case !httpguts.ValidHeaderFieldValue(c.Prefix):
		return errors.New("the prefix contains bytes that are invalid in a header")
	}
	if err := c.checkAddress(); err != nil {
		return err
	}
	for _, m := range c.Methods {
		if m == "" || m == http.MethodConnect || m == http.MethodTrace || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
			return fmt.Errorf("%q is not a method that can be listed, such as GET", m)
		}
	}
	for _, p := range c.Paths {
		if err := checkPath(p); err != nil {
			return fmt.Errorf("path %q %w", p, err)
		}
	}
	return nil
}

// port returns the rule's only port.
func (c Credential) port() uint16 { return c.Rule.Ports()[0] }

// permits reports whether the request may carry the credential.
func (c Credential) permits(r *request) bool {
	if len(c.Methods) > 0 && !slices.Contains(c.Methods, r.Method) {
		return false
	}
	if len(c.Paths) == 0 {
		return true
	}
	path := r.url.EscapedPath()
	return checkPath(path) == nil && slices.ContainsFunc(c.Paths, func(p string) bool { return beneath(path, p) })
}

// beneath compares whole path segments, unless the prefix ends with a slash.
func beneath(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || strings.HasSuffix(prefix, "/") || rest[0] == '/')
}

// checkPath refuses a path that servers may interpret differently than it looks.
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") {
		return errors.New("does not begin with a slash")
	}
	plain, err := url.PathUnescape(path)
	if err != nil || strings.ContainsAny(plain, "\\;?#\x00") || strings.Count(plain, "/") != strings.Count(path, "/") {
		return errors.New("contains bytes that servers interpret differently")
	}
	if strings.Contains(plain, "%") {
		return errors.New("is encoded twice")
	}
	for segment := range strings.SplitSeq(strings.Trim(plain, "/"), "/") {
		if segment == "." || segment == ".." || segment == "" && strings.Trim(plain, "/") != "" {
			return errors.New("contains empty or dot segments")
		}
	}
	if strings.Contains(plain, "//") {
		return errors.New("contains empty or dot segments")
	}
	return nil
}

// credentials returns the credentials for a target, for TLS or for plain HTTP on port 80.
func (p *Proxy) credentials(t netaddr.Target, encrypted bool) []Credential {
	var found []Credential
	for _, c := range p.config.Credentials {
		if c.Rule.Names(t.Host) && c.port() == t.Port && encrypted == (t.Port != plainPort) {
			found = append(found, c)
		}
	}
	return found
}

// placed returns the credential that defines a host's address.
func (p *Proxy) placed(h netaddr.Host) (Credential, bool) {
	i := slices.IndexFunc(p.config.Credentials, func(c Credential) bool { return c.Address.IsValid() && c.Rule.Names(h) })
	if i < 0 {
		return Credential{}, false
	}
	return p.config.Credentials[i], true
}

// strays refuses a request to a host with an Address if the request would not go there with the host's credential.
func (p *Proxy) strays(r *request) error {
	c, ok := p.placed(r.Host)
	seen := r.encrypted || r.Method == http.MethodConnect && p.config.Authority != nil
	if !ok || r.Port == c.port() && seen {
		return nil
	}
	return refuse(http.StatusForbidden, fmt.Errorf("%s is reached only by TLS on port %d", r.Host.Name, c.port()))
}

// upgrade makes a plain request use TLS if a credential says so.
func (p *Proxy) upgrade(r *request) {
	for _, c := range p.config.Credentials {
		if c.Upgrade && c.port() != plainPort && c.Rule.Names(r.Host) && (r.Port == plainPort || r.Port == c.port()) {
			r.Port, r.encrypted = c.port(), true
			return
		}
	}
}

// inject finds the credentials for a request's host. Values that the program itself has set are removed. The credentials are added after
// the header is stripped, because the program may name any field in Connection.
func (p *Proxy) inject(r *request) error {
	found := p.credentials(r.Target, r.encrypted)
	if len(found) == 0 {
		return nil
	}
	for _, c := range found {
		r.header.Del(c.Header)
	}
	r.added = http.Header{"Accept-Encoding": {"identity"}} // compression would hide secrets in the answer
	for _, c := range found {
		if name := http.CanonicalHeaderKey(c.Header); c.permits(r) && r.added[name] == nil {
			value := c.Value()
			if value == "" || !httpguts.ValidHeaderFieldValue(value) {
				return refuse(http.StatusBadGateway, fmt.Errorf("the credential for %s cannot be used: it is empty or not a valid header value", r.Host.Name))
			}
			r.added[name] = []string{c.Prefix + value}
			r.secrets = append(r.secrets, value)
		}
	}
	switch {
	case len(r.secrets) == 0:
		return refuse(http.StatusForbidden, fmt.Errorf("the credential for %s does not allow %s %s", r.Host.Name, r.Method, clip(r.url.EscapedPath())))
	case r.Method == http.MethodTrace:
		return refuse(http.StatusForbidden, fmt.Errorf("TRACE would repeat the credential for %s", r.Host.Name))
	}
	return nil
}

// clip shortens a program's text for an error.
func clip(text string) string {
	const most = 80
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
