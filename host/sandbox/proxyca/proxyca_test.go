package proxyca

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/egress"
)

func credentials(t *testing.T, hosts ...string) []egress.Credential {
	t.Helper()
	var all []egress.Credential
	for _, host := range hosts {
		rule, err := egress.ParseCredential(host)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, egress.Credential{Rule: rule})
	}
	return all
}

func of(t *testing.T, s *Store, process string, allowlist, hosts []string) *Bundle {
	t.Helper()
	b, err := s.Of(process, allowlist, credentials(t, hosts...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBundleIsSharedByTheSameHosts(t *testing.T) {
	s := New(t.TempDir())
	both := []string{"a.example", "b.example"}
	first := of(t, s, "p", both, both)
	if again := of(t, s, "p", both, []string{"b.example", "a.example"}); again != first {
		t.Error("the order of credentials makes a difference")
	}
	for name, other := range map[string]*Bundle{
		"fewer hosts": of(t, s, "p", both, both[:1]), "more on the allowlist": of(t, s, "p", append(both, "c.example"), both), "another process": of(t, s, "q", both, both),
	} {
		if other == first || other.Folder == first.Folder {
			t.Errorf("%s: the same bundle", name)
		}
	}
	if b := of(t, s, "p", []string{"a.example"}, []string{"a.example:80"}); b != nil {
		t.Errorf("a host that is not spoken to by TLS has %s", b.Folder)
	}
	if b := of(t, s, "p", []string{"a.example"}, nil); b != nil {
		t.Errorf("nothing has %s", b.Folder)
	}
}

// The host's own list is among the certificates only where hosts without a credential can be reached.
func TestBundleHasWhatTheAllowlistNeeds(t *testing.T) {
	public, err := publicBundle()
	if err != nil {
		t.Skipf("this machine has no list of certificates: %v", err)
	}
	s := New(t.TempDir())
	for _, c := range []struct {
		name      string
		allowlist []string
		public    bool
	}{
		{"all have credentials", []string{"a.example"}, false}, {"another host", []string{"a.example", "b.example"}, true}, {"those below it", []string{"*.a.example", "a.example"}, true},
	} {
		b := of(t, s, "p", c.allowlist, []string{"a.example"})
		text, err := os.ReadFile(filepath.Join(b.Folder, bundleFile))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(text), string(b.Authority.PEM())) {
			t.Errorf("%s: the authority is not at the end", c.name)
		}
		if strings.HasPrefix(string(text), string(public)) != c.public {
			t.Errorf("%s: the host's list is there: %v", c.name, !c.public)
		}
		if env := b.Env("/at"); !slices.Contains(env, "SSL_CERT_FILE=/at/bundle.pem") || !slices.Contains(env, "NODE_EXTRA_CA_CERTS=/at/proxy.pem") {
			t.Errorf("%s: variables %q", c.name, env)
		}
	}
}

// Without a list of the host's the authority alone is named, to those programs alone that add it to theirs.
func TestBundleWithoutTheHostsList(t *testing.T) {
	b := &Bundle{}
	if got := b.Env("/at"); !slices.Equal(got, []string{"NODE_EXTRA_CA_CERTS=/at/proxy.pem"}) {
		t.Errorf("variables %q", got)
	}
}

func TestClear(t *testing.T) {
	folder := t.TempDir()
	long := time.Now().Add(-kept - time.Hour)
	age := func(path string, at time.Time) {
		t.Helper()
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	s := New(folder)
	used := of(t, s, "mine", []string{"a.example"}, []string{"a.example"}).Folder
	age(used, long)
	left := map[string]string{}
	for name, at := range map[string]time.Time{"dead-0": long, "alive-0": long, "dead-1": time.Now()} {
		left[name] = filepath.Join(folder, prefix+name)
		if err := os.Mkdir(left[name], 0o755); err != nil {
			t.Fatal(err)
		}
		age(left[name], at)
	}
	if err := s.Clear(map[string]bool{"alive": true}, time.Now()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{used: true, left["dead-0"]: false, left["alive-0"]: true, left["dead-1"]: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(path), err == nil, want)
		}
	}
}
