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

// Credential is a secret that requests to a host are given on the way. A program inside may send a placeholder, or
// nothing: what it says in that header is replaced.
//
// The port decides how the host is reached. On port 80 requests are plain, and so is the secret. On every other one
// they go by TLS, which the proxy ends towards the program (terminate.go) and begins anew, verified, towards the host;
// with Upgrade a program may ask for http:// as well, and the host is reached by TLS all the same. A plain request to
// such a port carries no secret.
type Credential struct {
	Rule   netaddr.Rule // one port
	Header string       // Authorization, as it is written on the wire
	Prefix string
	// Value returns the secret as it is now. It is asked for each request, and never printed.
	Value func() string
	// Methods are those that may be asked for; any, if empty. Paths are the beginnings of paths that may.
	Methods, Paths []string
	Upgrade        bool
	// Address, if it is valid, is the one private address at which the operator says that the host is: its name is not resolved, and nothing
	// reaches the host but requests that get this credential. They go by TLS, verified for the host's name, or with Plain by plain HTTP.
	Address netip.AddrPort
	Plain   bool
}

// plainPort is where a credential goes out in the clear.
const plainPort = 80

// ParseCredential reads the host of a credential: as a rule of an allowlist with at most one port, 443 if there is none.
func ParseCredential(host string) (netaddr.Rule, error) {
	if strings.Contains(host, " ") {
		return netaddr.Rule{}, errors.New("methods are not part of the host; list them under methods")
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

// ParseAddress reads the address of a credential: "https://192.168.1.10:4000", or http:// for plain HTTP.
func ParseAddress(text string) (addr netip.AddrPort, plain bool, err error) {
	rest, encrypted := strings.CutPrefix(text, "https://")
	if !encrypted {
		if rest, plain = strings.CutPrefix(text, "http://"); !plain {
			return netip.AddrPort{}, false, fmt.Errorf("address %q does not say https:// or http://", clip(text))
		}
	}
	addr, err = netip.ParseAddrPort(rest)
	if err != nil || addr.Port() == 0 || addr.String() != rest {
		return netip.AddrPort{}, false, fmt.Errorf("address %q is not one IP address with a port; names are not resolved", clip(text))
	}
	return addr, plain, netaddr.Private(addr.Addr())
}

// Place is the address as ParseAddress reads it.
func (c Credential) Place() string {
	if c.Plain {
		return "http://" + c.Address.String()
	}
	return "https://" + c.Address.String()
}

// checkAddress refuses an address for anything but one host by its name.
func (c Credential) checkAddress() error {
	if !c.Address.IsValid() {
		return nil
	}
	if host, below := c.Rule.Host(); below || host.IsAddr() || c.port() == plainPort {
		return errors.New("an address is for one host by its name, and not on port 80")
	}
	return netaddr.Private(c.Address.Addr())
}

// Check refuses a credential that could not be sent, or not without changing what the request means.
func (c Credential) Check() error {
	switch {
	case !httpguts.ValidHeaderFieldName(c.Header):
		return fmt.Errorf("header %q is not the name of a header", c.Header)
	case slices.ContainsFunc(hopByHop[:], func(name string) bool { return strings.EqualFold(name, c.Header) }):
		return fmt.Errorf("header %q is the proxy's own", c.Header)
	case !httpguts.ValidHeaderFieldValue(c.Prefix):
		return errors.New("the prefix has bytes that no header may have")
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

// port is the only one of the rule.
func (c Credential) port() uint16 { return c.Rule.Ports()[0] }

// permits reports whether a request may have the credential.
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

// beneath compares whole segments, unless the prefix ends with a slash of its own.
func beneath(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || strings.HasSuffix(prefix, "/") || rest[0] == '/')
}

// checkPath refuses a path that the server may take for another one than it looks like.
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") {
		return errors.New("does not begin with a slash")
	}
	plain, err := url.PathUnescape(path)
	if err != nil || strings.ContainsAny(plain, "\\;?#\x00") || strings.Count(plain, "/") != strings.Count(path, "/") {
		return errors.New("has bytes that servers read in different ways")
	}
	if strings.Contains(plain, "%") {
		return errors.New("is encoded twice")
	}
	for segment := range strings.SplitSeq(strings.Trim(plain, "/"), "/") {
		if segment == "." || segment == ".." || segment == "" && strings.Trim(plain, "/") != "" {
			return errors.New("has segments that servers leave out")
		}
	}
	if strings.Contains(plain, "//") {
		return errors.New("has segments that servers leave out")
	}
	return nil
}

// credentials are those for a target: by TLS, or plain on port 80.
func (p *Proxy) credentials(t netaddr.Target, encrypted bool) []Credential {
	var found []Credential
	for _, c := range p.config.Credentials {
		if c.Rule.Names(t.Host) && c.port() == t.Port && encrypted == (t.Port != plainPort) {
			found = append(found, c)
		}
	}
	return found
}

// placed returns the credential that says where a host is.
func (p *Proxy) placed(h netaddr.Host) (Credential, bool) {
	i := slices.IndexFunc(p.config.Credentials, func(c Credential) bool { return c.Address.IsValid() && c.Rule.Names(h) })
	if i < 0 {
		return Credential{}, false
	}
	return p.config.Credentials[i], true
}

// strays refuses a request to a host with an address that would not go there with the host's credential.
func (p *Proxy) strays(r *request) error {
	c, ok := p.placed(r.Host)
	seen := r.encrypted || r.Method == http.MethodConnect && p.config.Authority != nil
	if !ok || r.Port == c.port() && seen {
		return nil
	}
	return refuse(http.StatusForbidden, fmt.Errorf("%s is reached by TLS on port %d alone", r.Host.Name, c.port()))
}

// upgrade turns a plain request into one by TLS where a credential says so.
func (p *Proxy) upgrade(r *request) {
	for _, c := range p.config.Credentials {
		if c.Upgrade && c.port() != plainPort && c.Rule.Names(r.Host) && (r.Port == plainPort || r.Port == c.port()) {
			r.Port, r.encrypted = c.port(), true
			return
		}
	}
}

// inject finds the credentials for a request that goes to their host. Whatever the program has put there itself goes. They
// are added once the header is stripped, of which the program may name any field as its connection's own.
func (p *Proxy) inject(r *request) error {
	found := p.credentials(r.Target, r.encrypted)
	if len(found) == 0 {
		return nil
	}
	for _, c := range found {
		r.header.Del(c.Header)
	}
	r.added = http.Header{"Accept-Encoding": {"identity"}} // or what the answer repeats could not be found
	for _, c := range found {
		if name := http.CanonicalHeaderKey(c.Header); c.permits(r) && r.added[name] == nil {
			value := c.Value()
			if value == "" || !httpguts.ValidHeaderFieldValue(value) {
				return refuse(http.StatusBadGateway, fmt.Errorf("the credential for %s cannot be used: it is empty or no text for a header", r.Host.Name))
			}
			r.added[name] = []string{c.Prefix + value}
			r.secrets = append(r.secrets, value)
		}
	}
	switch {
	case len(r.secrets) == 0:
		return refuse(http.StatusForbidden, fmt.Errorf("the credential for %s is not for %s %s", r.Host.Name, r.Method, clip(r.url.EscapedPath())))
	case r.Method == http.MethodTrace:
		return refuse(http.StatusForbidden, fmt.Errorf("TRACE would repeat the credential for %s", r.Host.Name))
	}
	return nil
}

// clip shortens what a program wrote for an error.
func clip(text string) string {
	const most = 80
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
