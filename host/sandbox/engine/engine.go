// Package engine parses the addresses of container engines and checks which of them are safe to use. Start with Parse. It is separate from
// the engine's driver so that a configuration can be checked without one.
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

// Address is the address of an engine.
type Address struct {
	// Scheme is unix, tcp or ssh.
	Scheme string
	// Path is the socket's: on this machine for unix, on the remote machine for ssh, where empty means its default.
	Path string
	// Host and Port are set for tcp and ssh. The port of ssh may be empty.
	Host, Port string
	User       string // for ssh; may be empty
}

// plainPort is the usual port of engines without TLS, securePort with it.
const (
	plainPort  = "2375"
	securePort = "2376"
)

// Parse parses an address such as unix:///run/docker.sock, tcp://build.example.com:2376 or ssh://user@build.example.com.
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

// public removes a possible password.
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
			return errors.New("a unix address must be the absolute path of a socket")
		}
	case "tcp":
		if a.Host == "" || a.Path != "" && a.Path != "/" || a.User != "" {
			return errors.New("a tcp address must be a host and a port")
		}
	case "ssh":
		return a.checkSSH()
	default:
		return errors.New("the scheme must be unix, tcp or ssh")
	}
	return nil
}

// checkSSH refuses what the ssh client or the remote shell could interpret as something else.
func (a Address) checkSSH() error {
	for _, word := range []string{a.Host, a.User, a.Path} {
		if strings.HasPrefix(word, "-") || strings.Trim(word, wordBytes) != "" {
			return fmt.Errorf("%q is malformed", word)
		}
	}
	if a.Host == "" {
		return errors.New("an ssh address must have a host")
	}
	return nil
}

// wordBytes are safe in every shell.
const wordBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/"

// CheckSecurity refuses an address without encryption, by which anybody on the network path could take over the engine and its machine.
// secure reports whether there are certificates for TLS.
func (a Address) CheckSecurity(secure bool) error {
	if a.Scheme != "tcp" || secure || a.loopback() {
		return nil
	}
	return fmt.Errorf("without TLS, anybody on the network path to %s could take over the engine and its machine", a.Host)
}

// HostPort returns the address to dial.
func (a Address) HostPort() string { return net.JoinHostPort(a.Host, a.Port) }

func (a Address) loopback() bool {
	ip, err := netip.ParseAddr(a.Host)
	return a.Host == "localhost" || err == nil && ip.IsLoopback()
}
