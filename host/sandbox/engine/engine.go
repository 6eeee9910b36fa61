// Package engine reads the addresses of container engines and says which of them may be used. Start with Parse. It is
// apart from the engine's driver so that a configuration is checked without one.
package engine

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"strings"
)

// Address is where an engine is.
type Address struct {
	// Scheme is unix, tcp or ssh.
	Scheme string
	// Path is the socket's: on this machine for unix, on the other one for ssh, where it is empty for that machine's own
	// default.
	Path string
	// Host and Port are those of tcp and ssh. An ssh port may be empty.
	Host, Port string
	User       string // of ssh, or empty
}

// plainPort is what engines use without TLS, securePort with it.
const (
	plainPort  = "2375"
	securePort = "2376"
)

// Parse reads an address such as unix:///run/docker.sock, tcp://build.example.com:2376 or ssh://user@build.example.com.
func Parse(text string) (Address, error) {
	u, err := url.Parse(text)
	if err != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return Address{}, fmt.Errorf("%q is not an engine address", public(text))
	}
	a := Address{Scheme: u.Scheme, Path: u.Path, Host: u.Hostname(), Port: u.Port()}
	if u.User != nil {
		a.User = u.User.Username()
		if _, is := u.User.Password(); is {
			return Address{}, errors.New("an engine address must not hold a password")
		}
	}
	if err := a.check(); err != nil {
		return Address{}, fmt.Errorf("%q is not an engine address: %w", public(text), err)
	}
	if a.Scheme == "tcp" && a.Port == "" {
		a.Port = securePort
		if a.loopback() {
			a.Port = plainPort
		}
	}
	return a, nil
}

// public leaves out what may be a password.
func public(text string) string {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		return "..." + text[i:]
	}
	return text
}

func (a Address) check() error {
	switch a.Scheme {
	case "unix":
		if a.Host != "" || !path.IsAbs(a.Path) || path.Clean(a.Path) != a.Path || a.Path == "/" {
			return errors.New("unix wants the absolute path of a socket")
		}
	case "tcp":
		if a.Host == "" || a.Path != "" && a.Path != "/" || a.User != "" {
			return errors.New("tcp wants a host and a port, nothing more")
		}
	case "ssh":
		return a.checkSSH()
	default:
		return errors.New("it is none of unix, tcp and ssh")
	}
	return nil
}

// checkSSH keeps out what the ssh client or the shell on the other side would read as something else.
func (a Address) checkSSH() error {
	for _, word := range []string{a.Host, a.User, a.Path} {
		if strings.HasPrefix(word, "-") || strings.Trim(word, wordBytes) != "" {
			return fmt.Errorf("%q is malformed", word)
		}
	}
	if a.Host == "" {
		return errors.New("ssh wants a host")
	}
	return nil
}

// wordBytes are harmless in every shell.
const wordBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/"

// CheckSecurity refuses an address that would hand the engine, and with it its machine, to everybody on the way. secure
// says that there are certificates for TLS.
func (a Address) CheckSecurity(secure bool) error {
	if a.Scheme != "tcp" || secure || a.loopback() {
		return nil
	}
	return fmt.Errorf("without TLS anybody on the way to %s owns the engine and its machine", a.Host)
}

// HostPort is what to dial.
func (a Address) HostPort() string { return net.JoinHostPort(a.Host, a.Port) }

func (a Address) loopback() bool {
	ip, err := netip.ParseAddr(a.Host)
	return a.Host == "localhost" || err == nil && ip.IsLoopback()
}
