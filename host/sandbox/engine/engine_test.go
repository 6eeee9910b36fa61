package engine

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want Address
		err  string
	}{
		{"unix:///run/docker.sock", Address{Scheme: "unix", Path: "/run/docker.sock"}, ""},
		{"tcp://127.0.0.1", Address{Scheme: "tcp", Host: "127.0.0.1", Port: "2375"}, ""},
		{"tcp://build.example.com", Address{Scheme: "tcp", Host: "build.example.com", Port: "2376"}, ""},
		{"tcp://[::1]:99", Address{Scheme: "tcp", Host: "::1", Port: "99"}, ""},
		{"ssh://me@build:22", Address{Scheme: "ssh", User: "me", Host: "build", Port: "22"}, ""},
		{"ssh://build/run/d.sock", Address{Scheme: "ssh", Host: "build", Path: "/run/d.sock"}, ""},
		{"", Address{}, "must be unix, tcp or ssh"},
		{"/var/run/docker.sock", Address{}, "must be unix, tcp or ssh"},
		{"unix://docker.sock", Address{}, "absolute path"},
		{"unix:///a/../b", Address{}, "absolute path"},
		{"tcp://", Address{}, "a host and a port"},
		{"tcp://h:1/path", Address{}, "a host and a port"},
		{"tcp://u@h:1", Address{}, "a host and a port"},
		{"tcp://h:port", Address{}, "not an engine address"},
		{"ssh://u:secret@h", Address{}, "must not hold a password"},
		{"ssh://u:secret@h:port", Address{}, "not an engine address"},
		{"ssh://-oProxyCommand=x", Address{}, "malformed"},
		{"ssh://-l@h", Address{}, "malformed"},
		{"ssh://h/$(id)", Address{}, "malformed"},
		{"ssh://h/a%20b", Address{}, "malformed"},
		{"ssh://", Address{}, "must have a host"},
		{"https://h", Address{}, "must be unix"},
		{"tcp://h:1?x", Address{}, "not an engine address"},
	} {
		t.Run(c.text, func(t *testing.T) {
			got, err := Parse(c.text)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %+v, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells a password: %v", err)
			}
		})
	}
}

func TestPlainTCPIsForTheLoopbackAlone(t *testing.T) {
	for _, c := range []struct {
		text   string
		secure bool
		ok     bool
	}{
		{"tcp://127.0.0.1:2375", false, true},
		{"tcp://127.8.8.8:2375", false, true},
		{"tcp://[::1]:2375", false, true},
		{"tcp://localhost:2375", false, true},
		{"tcp://10.0.0.1:2375", false, false},
		{"tcp://localhost.example.com:2375", false, false},
		{"tcp://0.0.0.0:2375", false, false},
		{"tcp://10.0.0.1:2376", true, true},
		{"unix:///s", false, true},
		{"ssh://h", false, true},
	} {
		a, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.CheckSecurity(c.secure); (err == nil) != c.ok {
			t.Errorf("%s, with TLS %v: %v", c.text, c.secure, err)
		}
	}
}

// FuzzParse: no address makes an argument that a shell or ssh would read as something else.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"unix:///s", "ssh://u@h:22/p", "tcp://[::1]:1", "ssh://-o@h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(text)
		if err != nil || a.Scheme != "ssh" {
			return
		}
		for _, word := range []string{a.Host, a.User, a.Path, a.Port} {
			if strings.HasPrefix(word, "-") || strings.ContainsAny(word, " \t\n\x00'\"\\$`;&|<>()*?[]{}~#!%") {
				t.Errorf("%q becomes %+v", text, a)
			}
		}
	})
}
