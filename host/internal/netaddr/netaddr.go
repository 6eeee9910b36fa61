// Package netaddr decides where a connection made on behalf of a model may go: which addresses are public, which spellings
// of a host name are accepted, and which targets an entry of an allowlist covers.
//
// Start with Public, ParseHost and ParseRule. The package resolves and dials nothing.
package netaddr

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// MaxName bounds a host name (RFC 1035, 2.3.4), and maxLabel a part of it.
const (
	MaxName  = 253
	maxLabel = 63
)

// Host is a DNS name in its only accepted spelling, or an address.
type Host struct {
	Name string     // lower case, without a final dot; for an address its canonical text
	Addr netip.Addr // valid if the host is an address
}

// IsAddr reports whether the host is an address.
func (h Host) IsAddr() bool { return h.Addr.IsValid() }

// ParseHost reads a host as it is written in a URL, an IPv6 address in brackets. One host has one spelling: capitals, a
// final dot, other scripts and unusual forms of addresses are refused, so that two programs cannot read two different
// hosts in one text.
func ParseHost(text string) (Host, error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		ip, err := netip.ParseAddr(inner)
		if !ok || err != nil || !ip.Is6() || ip.Zone() != "" || ip.Is4In6() || ip.String() != inner {
			return Host{}, fmt.Errorf("host %q is no IPv6 address in its short form", clip(text))
		}
		return Host{Name: inner, Addr: ip}, nil
	}
	if err := checkName(text); err != nil {
		return Host{}, fmt.Errorf("host %q %w", clip(text), err)
	}
	if ip, err := netip.ParseAddr(text); err == nil {
		return Host{Name: text, Addr: ip}, nil
	}
	if looksNumeric(text) {
		return Host{}, fmt.Errorf("host %q is no IPv4 address in its usual form", clip(text))
	}
	return Host{Name: text}, nil
}

// checkName accepts names of letters, digits and hyphens (RFC 1123, 2.1), and underscores, which names of services have.
func checkName(text string) error {
	switch {
	case text == "":
		return errors.New("is empty")
	case len(text) > MaxName:
		return fmt.Errorf("is longer than %d bytes", MaxName)
	case strings.HasSuffix(text, "."):
		return errors.New("ends with a dot; leave it out")
	}
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
			return errors.New("is not a host name")
		}
		for i := range len(label) {
			if err := checkByte(label[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkByte(c byte) error {
	switch {
	case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		return nil
	case 'A' <= c && c <= 'Z':
		return errors.New("has capital letters; write it in lower case")
	case c >= 0x80:
		return errors.New("has letters outside ASCII; write it in punycode (xn--)")
	}
	return fmt.Errorf("has the byte %#02x, which no host name has", c)
}

// looksNumeric is the test "ends in a number" of the WHATWG URL standard: some programs read such a text, 127.1 or
// 0x7f000001 for example, as an IPv4 address, and no top-level domain is numeric.
func looksNumeric(text string) bool {
	last := text[strings.LastIndexByte(text, '.')+1:]
	if digits, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// ParsePort reads a port in its only spelling.
func ParsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != text {
		return 0, fmt.Errorf("port %q is not a number from 1 to 65535", clip(text))
	}
	return uint16(n), nil
}

// SplitPort cuts "host:port". Without a port the port is "".
func SplitPort(text string) (host, port string, err error) {
	end := strings.LastIndexByte(text, ':')
	if end < 0 || strings.HasSuffix(text, "]") {
		return text, "", nil
	}
	host, port = text[:end], text[end+1:]
	if strings.Contains(host, ":") && !strings.HasSuffix(host, "]") {
		return "", "", fmt.Errorf("host %q has more than one colon; write an IPv6 address in brackets", clip(text))
	}
	if port == "" {
		return "", "", fmt.Errorf("host %q has a colon but no port", clip(text))
	}
	return host, port, nil
}

// clip shortens foreign text for an error.
func clip(text string) string {
	const most = 80
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
