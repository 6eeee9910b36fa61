package sandbox_test

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/sandbox"
	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/program"
	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
	"github.com/flynnhost/flynn/host/sandbox/spec"
)

const ownersToken = "the-owners-own-token-7f3a"

// vouched returns a manager whose sandboxes reach a TLS server as example.com, to which requests get a credential.
func vouched(t *testing.T, handler http.HandlerFunc, value *atomic.Value) (*sandbox.Manager, sandbox.Config, sandboxtest.Host, *decisions) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	var noted decisions
	h := sandboxtest.Engine(t)
	m, config := h.Manager(t, func(c *sandbox.Config) {
		c.SetNetwork(testNetwork{server.Listener.Addr().String()})
		c.Roots = x509.NewCertPool()
		c.Roots.AddCert(server.Certificate())
		c.Egress = &noted
		c.Secret = func(name string) string {
			if name != "env OWNERS_TOKEN" {
				return ""
			}
			return value.Load().(string)
		}
		c.Spec.Network, c.Spec.Allowlist = "allowlist", []string{"example.com", "other.example"}
		c.Spec.Credentials = []spec.Credential{{
			Host: "example.com", Header: "Authorization", Prefix: "Bearer ", Secret: "env OWNERS_TOKEN", Upgrade: true,
		}}
	})
	return m, config, h, &noted
}

func TestCredentialOfASandbox(t *testing.T) {
	var value, seen atomic.Value
	value.Store(ownersToken)
	m, config, h, noted := vouched(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("Authorization"))
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		fmt.Fprintf(w, "you said %s", r.Header.Get("Authorization"))
	}, &value)
	s := get(t, m, "s", config.Spec)
	probe, err := program.FindProbe(config.Log)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(probe)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WriteFile(t.Context(), "probe", text, 0o755); err != nil {
		t.Fatal(err)
	}

	t.Run("by TLS", func(t *testing.T) {
		r := run(t, s, machine.Command{Script: "./probe http https://example.com/v1"})
		if got := string(r.Stdout); !strings.Contains(got, "answered 200 OK") || seen.Load() != "Bearer "+ownersToken {
			t.Errorf("got %q %q, the server has seen %v", got, r.Stderr, seen.Load())
		}
	})
	t.Run("plain inside, TLS outside", func(t *testing.T) {
		r := run(t, s, machine.Command{Script: "wget -S -O - --header 'Authorization: Bearer placeholder' http://example.com/ 2>&1"})
		if got := string(r.Stdout); !strings.Contains(got, "you said Bearer ***") || strings.Contains(got, ownersToken) {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a new value, the same container", func(t *testing.T) {
		value.Store("a-fresh-token-91bc")
		run(t, s, machine.Command{Script: "wget -q -O - http://example.com/"})
		if seen.Load() != "Bearer a-fresh-token-91bc" {
			t.Errorf("the server has seen %v", seen.Load())
		}
		value.Store(ownersToken)
	})
	t.Run("nowhere inside", func(t *testing.T) {
		search := `env | grep -c ` + ownersToken + `; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -c the-owners-[o]wn` +
			`; grep -rIl ` + ownersToken + ` / --exclude-dir proc --exclude-dir sys 2>/dev/null | grep -v '^/proc\|^/sys' | wc -l`
		r := run(t, s, machine.Command{Script: strings.ReplaceAll(search, ownersToken, "the-owners-[o]wn-token"), Timeout: time.Minute})
		if got := strings.Fields(string(r.Stdout)); len(got) != 3 || strings.Join(got, "") != "000" {
			t.Errorf("found: %q %q", r.Stdout, r.Stderr)
		}
	})
	t.Run("not in what the engine tells", func(t *testing.T) {
		owned, err := h.Driver.List(t.Context(), config.Instance)
		if err != nil || len(owned) != 1 {
			t.Fatalf("%d containers (%v)", len(owned), err)
		}
		inspected, err := h.API.ContainerInspect(t.Context(), owned[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		if told, _ := json.Marshal(inspected); strings.Contains(string(told), ownersToken) {
			t.Errorf("the engine knows it: %s", told)
		}
	})
	if told, err := json.Marshal(config.Spec); err != nil || strings.Contains(string(told), ownersToken) {
		t.Errorf("the specification knows it: %s (%v)", told, err)
	}
	for _, want := range []string{"s CONNECT example.com:443 true", "s GET example.com:443 true"} {
		if !noted.have(want) {
			t.Errorf("no decision %q in %q", want, noted.seen)
		}
	}
}

// The content of the files that programs trust, with and without hosts that need the public certificates.
func TestTrustInside(t *testing.T) {
	var value atomic.Value
	value.Store(ownersToken)
	m, config, _, _ := vouched(t, func(http.ResponseWriter, *http.Request) {}, &value)
	wanted := config.Spec
	count := func(session message.WorkspaceKey, wanted spec.Spec) string {
		r := run(t, get(t, m, session, wanted), machine.Command{Script: `grep -c BEGIN.CERT $NODE_EXTRA_CA_CERTS $SSL_CERT_FILE; echo x 2>/dev/null >>$SSL_CERT_FILE || echo read-only`})
		return string(r.Stdout)
	}
	own, bundle := "/.flynn-trust/proxy.pem:1\n", "/.flynn-trust/bundle.pem:"
	if got := count("some", wanted); !strings.HasPrefix(got, own+bundle) || strings.Contains(got, bundle+"1\n") || !strings.HasSuffix(got, "read-only\n") {
		t.Errorf("with another host: %q", got)
	}
	wanted.Allowlist = []string{"example.com"}
	if got := count("all", wanted); got != own+bundle+"1\nread-only\n" {
		t.Errorf("without: %q", got)
	}
}

func TestCredentialSpec(t *testing.T) {
	m, config := sandboxtest.Engine(t).Manager(t)
	for _, c := range []struct {
		name, host, header, want string
	}{
		{"not on the allowlist", "evil.org", "Authorization", "does not cover"},
		{"another port", "example.com:8443", "Authorization", "does not cover"},
		{"below it", "*.example.com", "Authorization", "does not cover"},
		{"methods", "GET example.com", "Authorization", "methods"},
		{"header", "example.com", "Content-Length", "set by the proxy itself"},
	} {
		wanted := config.Spec
		wanted.Network, wanted.Allowlist = "allowlist", []string{"example.com"}
		wanted.Credentials = []spec.Credential{{Host: c.host, Header: c.header}}
		if _, err := m.Get(t.Context(), "s", "", wanted); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestAddressOfACredential: no other secret goes to the address, and only one host is there.
func TestAddressOfACredential(t *testing.T) {
	wanted := spec.Spec{Image: "x", Network: "allowlist", Allowlist: []string{"example.com", "*.example.com"}}
	at := spec.Credential{Host: "example.com", Header: "X-Key", Address: "http://192.168.1.10:4000"}
	for _, c := range []struct {
		name  string
		creds []spec.Credential
		want  string
	}{
		{"alone", []spec.Credential{at}, ""},
		{"beside another host", []spec.Credential{at, {Host: "api.example.com", Header: "X-Key"}}, ""},
		{"another secret for the host", []spec.Credential{{Host: "example.com", Header: "Authorization"}, at}, "another credential is for the same host"},
		{"another port of the host", []spec.Credential{at, {Host: "example.com:80", Header: "Authorization"}}, "another credential is for the same host"},
		{"a name", []spec.Credential{{Host: "example.com", Header: "X-Key", Address: "http://gateway.lan:4000"}}, "names are not resolved"},
		{"metadata", []spec.Credential{{Host: "example.com", Header: "X-Key", Address: "http://169.254.169.254:80"}}, "neither a loopback address nor one of a private network"},
		{"all names below", []spec.Credential{{Host: "*.example.com", Header: "X-Key", Address: "http://192.168.1.10:4000"}}, "one host name"},
	} {
		wanted.Credentials = c.creds
		if err := wanted.Check(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
