package preview

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// base is what the origins of all previews have in common.
type base struct {
	scheme string
	suffix string // of the host, after the label, without the port
	port   string // "" is that of the scheme
	// local is true if browsers take the names to their own machine. Then the port is any: it may be forwarded.
	local bool
}

// wild stands for the name of a preview in the configured origin.
const wild = "*."

// parseOrigin reads the configured origin.
func parseOrigin(origin string) (base, error) {
	if origin == "" {
		return base{scheme: "http", suffix: ".localhost", local: true}, nil
	}
	u, err := url.Parse(strings.ToLower(origin))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || !strings.HasPrefix(u.Host, wild) || strings.Contains(u.Host[len(wild):], "*") ||
		u.Hostname() == wild || strings.ToLower(origin) != u.Scheme+"://"+u.Host {
		return base{}, fmt.Errorf("preview origin %q is not scheme://*.host[:port]; write for example \"https://*.preview.example.com\"", origin)
	}
	return base{scheme: u.Scheme, suffix: strings.TrimPrefix(u.Hostname(), "*"), port: u.Port()}, nil
}

// Listen implements gateway.PreviewOrigins.
func (s *Service) Listen(addr net.Addr) {
	if at, err := netip.ParseAddrPort(addr.String()); err == nil && s.base.local {
		s.base.port = fmt.Sprint(at.Port())
	}
}

// address is the origin of a preview, with a slash.
func (b base) address(label string) string {
	host := label + b.suffix
	if b.port != "" {
		host += ":" + b.port
	}
	return b.scheme + "://" + host + "/"
}

// label returns the name of the preview in a Host; ok is false if it is of none.
func (b base) label(host string) (label string, ok bool) {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, ""
	}
	label, ok = strings.CutSuffix(strings.ToLower(name), b.suffix)
	return label, ok && strings.HasPrefix(label, "p-") && !strings.Contains(label, ".") && (b.local || port == b.port)
}

// Serves implements gateway.PreviewOrigins.
func (s *Service) Serves(host string) bool {
	_, ok := s.base.label(host)
	return ok
}

// secure reports whether browsers reach previews by TLS.
func (b base) secure() bool { return b.scheme == "https" }
