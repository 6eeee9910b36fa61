package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheExampleOfACluster(t *testing.T) {
	values := map[string]string{"POD_NAME": "flynn-2", "FLYNN_STORE": "postgres://u:pa55@h/d", "FLYNN_API_TOKEN": strings.Repeat("t", 48)}
	cfg, err := Load("../../examples/cluster/kubernetes/flynn.toml", func(name string) string { return values[name] })
	if err != nil {
		t.Fatal(err)
	}
	if _, variable, url, host := cfg.Store.Location(); variable != "FLYNN_STORE" || string(url) != values[variable] || host != "flynn-2" {
		t.Errorf("host %q has the store in %s", host, variable)
	}
}

func TestTheAddressOfTheDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flynn.toml")
	for _, c := range []struct{ name, key, value, want string }{
		{"set", "FLYNN_STORE", "postgres://u:pa55@h/d", ""},
		{"not set", "FLYNN_STORE", "", "environment variable FLYNN_STORE is not set"},
		{"no name of a variable", "postgres://u=v", "x", `"postgres://u=v" is not a name of an environment variable`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "[agent_configs.main]\n[routing]\ndefault_agent = \"main\"\n[store]\ndir = \"/tmp/x\"\nurl_env = \"" + c.key + "\"\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := Load(path, func(name string) string {
				if name == c.key {
					return c.value
				}
				return ""
			})
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ":6") {
					t.Errorf("error is %v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if dir, variable, url, host := cfg.Store.Location(); dir != "/tmp/x" || variable != c.key || string(url) != c.value || host != "" {
				t.Errorf("the store is at %q, %q, %v, of host %q", dir, variable, url, host)
			}
		})
	}
}

func TestTheNameOfAHostAmongOthers(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, c := range []struct {
		name, key, value, host string
		fails                  bool
	}{
		{"in the file", "host", "a-1", "a-1", false},
		{"the longest", "host", long, long, false},
		{"too long", "host", long + "a", "", true},
		{"empty", "host", "", "", true},
		{"with capitals", "host", "Web", "", true},
		{"a line end", "host", `a\n`, "", true},
		{"a hyphen at the end", "host", "a-", "", true},
		{"in a variable", "host_env", "POD", "flynn-0", false},
		{"in a variable, with dots", "host_env", "DOTS", "", true},
		{"in a variable that is not set", "host_env", "NOT", "", true},
		{"in what is no name of a variable", "host_env", "a=b", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "[agent_configs.main]\n[routing]\ndefault_agent = \"main\"\n[store]\ndir = \"/tmp/x\"\nurl_env = \"DB\"\n[cluster]\n" + c.key + " = \"" + c.value + "\"\n"
			path := write(t, filepath.Join(t.TempDir(), "flynn.toml"), text, 0o600)
			cfg, err := Load(path, environ("DB", "postgres://h/d", "POD", "flynn-0", "DOTS", "flynn.0"))
			if c.fails {
				if err == nil || !strings.Contains(err.Error(), ":8: cluster."+c.key) {
					t.Errorf("error is %v", err)
				}
			} else if err != nil || cfg.Store.Host != c.host {
				t.Errorf("the host is %q, %v", cfg.Store.Host, err)
			}
		})
	}
}
