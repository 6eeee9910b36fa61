package netaddr

import (
	"strings"
	"testing"
)

func TestParseHost(t *testing.T) {
	for text, want := range map[string]string{ // part of the error; "" is none
		"example.com": "", "a.b-c.example": "", "_dmarc.example.com": "", "xn--bcher-kva.example": "", "localhost": "",
		"93.184.216.34": "", "[2606:2800::1]": "", strings.Repeat("a", 63) + ".example": "",

		"": "empty", "example.com.": "dot", ".": "dot", "a..b": "not a host name", ".a": "not a host name", "-a.b": "not a host name", "a-.b": "not a host name",
		"Example.com": "lower case", "bücher.example": "punycode", "example.com\x00.evil.org": "0x00", "a b": "0x20", "user@host": "0x40",
		"host%00": "0x25", "a/b": "0x2f", "a\\b": "0x5c", "a\tb": "0x09", "a:b": "0x3a", "ａ.example": "punycode",
		"127.1": "usual form", "2130706433": "usual form", "0x7f000001": "usual form", "0x7f.1": "usual form", "0177.0.0.1": "usual form",
		"1.2.3.4.5": "usual form", "a.0x1f": "usual form", "0x": "usual form", "127.0.0.01": "usual form",
		"[::ffff:127.0.0.1]": "short form", "[fe80::1%eth0]": "short form", "[2606:2800:0:0::1]": "short form", "[::1": "short form", "[127.0.0.1]": "short form",
		"[2606:2800::ABCD]": "short form", "[]": "short form", "::1": "0x3a",
		strings.Repeat("a", 64) + ".example": "not a host name", strings.Repeat("a.", 130) + "a": "longer",
	} {
		_, err := ParseHost(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func TestParseRuleRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"*": "0x2a", "*.com": "top-level", "*.93.184.216.34": "no names", "a.*.com": "0x2a", "*example.com": "0x2a",
		"example.com:0": "port", "example.com:99999": "port", "example.com:080": "port", "example.com:": "no port", "example.com:x": "port",
		"a:b:c": "more than one colon", "http://example.com": "port", "example.com/x": "0x2f", "user@example.com": "0x40",
		"[::1]:80": "not public", "127.0.0.1": "not public", "169.254.169.254": "not public", "[::1": "more than one colon", "": "empty", "*.": "empty",
		"CONNECT example.com": "CONNECT", "get example.com": "get", "GET, example.com": "not a method", "BLAH a.com": "not a method", "GET,GETS a.com": "not a method", "a.com b.com": "not a method", "GET example.com:443": "443", "GET  example.com": "0x20",
		" example.com": "not a method", "example.com ": "not a method",
	} {
		if _, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		rule, host string
		port       uint16
		method     string
		want       bool
	}{
		{"example.com", "example.com", 80, "GET", true},
		{"example.com", "example.com", 443, "CONNECT", true},
		{"example.com", "example.com", 8080, "GET", false},
		{"example.com", "www.example.com", 80, "GET", false},
		{"example.com", "badexample.com", 80, "GET", false},
		{"example.com", "example.com.evil.org", 80, "GET", false},
		{"example.com:8443", "example.com", 8443, "CONNECT", true},
		{"example.com:8443", "example.com", 443, "CONNECT", false},
		{"*.example.com", "a.example.com", 443, "CONNECT", true},
		{"*.example.com", "a.b.example.com", 443, "CONNECT", true},
		{"*.example.com", "example.com", 443, "CONNECT", false},
		{"*.example.com", "aexample.com", 443, "CONNECT", false},
		{"GET,HEAD example.com", "example.com", 80, "HEAD", true},
		{"GET,HEAD example.com", "example.com", 80, "POST", false},
		{"GET,HEAD example.com", "example.com", 443, "CONNECT", false},
		{"GET example.com:8080", "example.com", 8080, "CONNECT", false},
		{"93.184.216.34", "93.184.216.34", 443, "CONNECT", true},
		{"[2606:2800::1]:443", "[2606:2800::1]", 443, "CONNECT", true},
		{"example.com", "93.184.216.34", 443, "CONNECT", false},
	} {
		rules, err := ParseRules([]string{"unrelated.example:1", c.rule})
		if err != nil {
			t.Fatal(err)
		}
		host, err := ParseHost(c.host)
		if err != nil {
			t.Fatal(err)
		}
		if got := rules.Cover(Target{host, c.port, c.method}); got != c.want {
			t.Errorf("%s covers %s %s:%d: %v", c.rule, c.method, c.host, c.port, got)
		}
	}
}

// FuzzParseRule checks that no accepted rule names anything that ParseHost would refuse.
func FuzzParseRule(f *testing.F) {
	for _, text := range []string{"example.com", "*.example.com:80", "GET,HEAD a.b", "[2606:2800::1]:443", "a:b:c", "*.*.", "127.1", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRule(text)
		if err != nil {
			return
		}
		name := r.host.Name
		if r.host.IsAddr() && r.host.Addr.Is6() {
			name = "[" + name + "]"
		}
		if again, err := ParseHost(name); err != nil || again != r.host || len(r.ports) == 0 {
			t.Errorf("%q was taken for %+v (%v)", text, r, err)
		}
	})
}
