package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// write makes a file and returns its path.
func write(t testing.TB, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // past the umask
		t.Fatal(err)
	}
	return path
}

// environ is an environment of pairs.
func environ(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

const minimal = `
[agent_configs.main]
[routing]
default_agent = "main"
`

// loadText loads a configuration from a folder of its own, which is also the home folder.
func loadText(t testing.TB, text string, env ...string) (*Config, error) {
	t.Helper()
	dir := t.TempDir()
	path := write(t, filepath.Join(dir, "flynn.toml"), text, 0o600)
	return Load(path, environ(append(env, "HOME", dir)...))
}

func mustLoad(t testing.TB, text string, env ...string) *Config {
	t.Helper()
	cfg, err := loadText(t, text, env...)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestDefaults(t *testing.T) {
	cfg := mustLoad(t, minimal)
	home := filepath.Dir(cfg.Path)
	for name, got := range map[string][2]any{
		"image":           {cfg.Sandbox.Image, "node:22-slim"},
		"workspace":       {cfg.Sandbox.WorkspaceDir, "/workspace"},
		"network":         {cfg.Sandbox.Network, "none"},
		"memory":          {cfg.Sandbox.MemoryLimit, Size(512 << 20)},
		"cpus":            {cfg.Sandbox.CPULimit, CPUs(1)},
		"timeout":         {cfg.Sandbox.TimeoutSeconds, 300},
		"pids":            {cfg.Sandbox.PidsLimit, 256},
		"unavailable":     {cfg.Sandbox.OnUnavailable, "deny"},
		"tier":            {cfg.Agents["main"].ModelTier, "default"},
		"profile":         {cfg.Agents["main"].ToolProfile, "minimal"},
		"kind":            {cfg.Agents["main"].Kind, "chat"},
		"approve":         {cfg.Agents["main"].Approve, "shell"},
		"agent's sandbox": {cfg.Agents["main"].Sandbox, SandboxRef{}},
		"provider":        {cfg.Models["default"].Provider, "demo"},
		"listen":          {cfg.Gateway.Listen, "127.0.0.1:7351"},
		"token":           {cfg.Gateway.TokenFile, home + "/.local/share/flynn/gateway.token"},
		"plugins":         {cfg.Plugins.Dir, home + "/.local/share/flynn/plugins"},
		"store":           {cfg.Store.Dir, home + "/.local/share/flynn"},
		"access":          {cfg.Access.Mode, "allowlist"},
		"rate":            {cfg.Access.RatePerMinute, 30},
		"steps":           {cfg.Budgets.StepsPerTurn, 25},
	} {
		if got[0] != got[1] {
			t.Errorf("%s is %v, want %v", name, got[0], got[1])
		}
	}
}

func TestNamedSandboxInherits(t *testing.T) {
	cfg := mustLoad(t, minimal+`
[sandbox]
memory_limit = "1g"
pids_limit = 100
[sandboxes.small]
pids_limit = 50
`)
	small := cfg.Sandboxes["small"]
	if small.MemoryLimit != 1<<30 || small.PidsLimit != 50 || small.Image != "node:22-slim" || !small.Enabled {
		t.Errorf("inherited %+v", small)
	}
	if cfg.Sandbox.PidsLimit != 100 || cfg.Sandbox.Enabled {
		t.Errorf("[sandbox] was changed to %+v", cfg.Sandbox)
	}
}

// TestNamedSandboxHasAPoolOfItsOwn: what waits in a pool costs memory, so nobody inherits one.
func TestNamedSandboxHasAPoolOfItsOwn(t *testing.T) {
	cfg := mustLoad(t, minimal+`
[sandbox]
warm_pool = 3
[sandboxes.with]
warm_pool = 1
[sandboxes.without]
`)
	if a, b, c := cfg.Sandbox.WarmPool, cfg.Sandboxes["with"].WarmPool, cfg.Sandboxes["without"].WarmPool; a != 3 || b != 1 || c != 0 {
		t.Errorf("pools of %d, %d and %d", a, b, c)
	}
	if cfg.Sandbox.WarmPoolCPU != 25 {
		t.Errorf("%d %% of the machine's time", cfg.Sandbox.WarmPoolCPU)
	}
}

func TestAgentsFollowSandboxEnabled(t *testing.T) {
	cfg := mustLoad(t, `
sandbox.enabled = true
agent_configs.main = {}
agent_configs.free.sandbox = false
routing.default_agent = "main"
`)
	if !cfg.Agents["main"].Sandbox.Enabled || cfg.Agents["free"].Sandbox.Enabled {
		t.Errorf("sandboxes of agents: %+v", cfg.Agents)
	}
}

func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "key"), "from-file\n", 0o600)
	path := write(t, filepath.Join(dir, "flynn.toml"), minimal+`
[models.default]
provider = "anthropic"
model = "m"
api_key_file = "key"
[channels.tg]
plugin = "telegram"
token_env = "TG"
poll_seconds = 5
`, 0o600)
	cfg, err := Load(path, environ("HOME", dir, "TG", "from-env"))
	if err != nil {
		t.Fatal(err)
	}
	tg := cfg.Channels["tg"]
	if got := cfg.Models["default"].APIKey.Reveal(); got != "from-file" {
		t.Errorf("key is %q", got)
	}
	if got := tg.Secrets["token"].Reveal(); got != "from-env" {
		t.Errorf("token is %q", got)
	}
	if want := map[string]any{"poll_seconds": int64(5)}; !reflect.DeepEqual(tg.Settings, want) {
		t.Errorf("settings are %v, want %v", tg.Settings, want)
	}
	var shown bytes.Buffer
	if err := cfg.Show(&shown); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"from-file", "from-env"} {
		if strings.Contains(shown.String(), secret) {
			t.Errorf("Show tells the secret %q:\n%s", secret, shown.String())
		}
	}
}

// TestShowLoadsAgain: what Show writes is the same configuration, from any folder.
func TestShowLoadsAgain(t *testing.T) {
	reference, _ := loadReference(t)
	for name, cfg := range map[string]*Config{
		"minimal":   mustLoad(t, minimal),
		"reference": reference,
		"odd names": mustLoad(t, minimal+`
[routing.senders]
"terminal:a.b\"c\\ d" = "main"
'terminal:{x,y}*' = "main"
[channels.one]
plugin = "p"
enabled = false
token_env = "NOT_SET"
nested = {list = [1, 2], when = 2026-01-02T03:04:05Z}
`),
	} {
		t.Run(name, func(t *testing.T) {
			var shown bytes.Buffer
			if err := cfg.Show(&shown); err != nil {
				t.Fatal(err)
			}
			home := filepath.Dir(cfg.Path)
			path := write(t, filepath.Join(t.TempDir(), "shown.toml"), shown.String(), 0o600)
			again, err := Load(path, environ("HOME", home, "EDITOR_TOKEN", editorToken))
			if err != nil {
				t.Fatalf("%v\n%s", err, shown.String())
			}
			a, b := *cfg, *again
			for _, c := range []*Config{&a, &b} {
				c.Path, c.Digest, c.lines = "", "", nil
			}
			if !reflect.DeepEqual(emptyNil(a), emptyNil(b)) {
				t.Errorf("changed by a round trip:\n%+v\n%+v\n%s", a, b, shown.String())
			}
		})
	}
}

// emptyNil makes no difference between a list that is missing and one that is empty.
func emptyNil(c Config) Config {
	var visit func(v reflect.Value)
	visit = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Field(i).CanSet() {
					visit(v.Field(i))
				}
			}
		case reflect.Slice, reflect.Map:
			if v.Len() == 0 {
				v.SetZero()
				return
			}
			if v.Kind() == reflect.Slice {
				for i := range v.Len() {
					visit(v.Index(i))
				}
				return
			}
			for _, key := range v.MapKeys() {
				entry := reflect.New(v.Type().Elem()).Elem()
				entry.Set(v.MapIndex(key))
				visit(entry)
				v.SetMapIndex(key, entry)
			}
		}
	}
	visit(reflect.ValueOf(&c).Elem())
	return c
}

func TestLoadMissingFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.toml"), environ())
	var errs Errors
	if !errors.As(err, &errs) || len(errs) != 1 || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error is %v", err)
	}
	if _, err := Load(t.TempDir(), environ()); err == nil {
		t.Error("a folder was loaded")
	}
	if _, err := loadText(t, strings.Repeat("#", maxFile+1)); err == nil {
		t.Error("a huge file was loaded")
	}
}

// TestChecksAreMerged: errors of further checks come with the others, in file order.
func TestChecksAreMerged(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "flynn.toml"), "bogus = 1\n"+minimal+"listen = 1\n", 0o600)
	_, err := Load(path, environ("HOME", "/nowhere"), func(c *Config) Errors {
		return Errors{{File: c.Path, Line: c.Line("routing", "default_agent"), Problem: "from the check"}}
	})
	var lines []string
	for _, e := range err.(Errors) {
		lines = append(lines, e.Problem)
	}
	if got := strings.Join(lines, "|"); got != "unknown key|from the check|unknown key" {
		t.Errorf("errors are %s", got)
	}
}

func TestLoadBesideAHost(t *testing.T) {
	const keyless = minimal + "[models.default]\nprovider = \"anthropic\"\nmodel = \"m\"\napi_key_env = \"KEY\"\n[clients.a]\ntoken_file = \"none\"\nagents = [\"main\"]\n"
	tests := []struct {
		name, text, want string // want is part of the error; empty is none
	}{
		{"secrets are elsewhere", keyless, ""},
		{"other errors count", keyless + "[routing.channels]\nweb = \"nobody\"\n", "nobody"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := write(t, filepath.Join(dir, "flynn.toml"), tt.text, 0o600)
			env := environ("HOME", dir)
			_, err := LoadBeside(path, env)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if _, err := Load(path, env); err == nil || !strings.Contains(err.Error(), "KEY is not set") {
				t.Errorf("the host loads it without its secret: %v", err)
			}
		})
	}
}

func TestLoadGateway(t *testing.T) {
	const there = "[gateway]\nlisten = \"127.0.0.1:4711\"\n[store]\ndir = \"s\"\n"
	tests := []struct {
		name, text, want string // want is part of the error; empty is none
	}{
		{"without an agent", there, ""},
		{"errors elsewhere", there + "[models.default]\nprovider = 5\nkey = \"x\"\n[access]\nmode = \"no\"\n", ""},
		{"errors in the section", "[gateway]\nlisten = \"x\"\n", "gateway.listen"},
		{"lines that cannot be read may be those that count", there + "[models\n", ":5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			g, err := LoadGateway(write(t, filepath.Join(dir, "flynn.toml"), tt.text, 0o600), environ("HOME", dir))
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if want := (Gateway{Listen: "127.0.0.1:4711", TokenFile: filepath.Join(dir, "s", "gateway.token")}); err == nil && (g.Listen != want.Listen || g.TokenFile != want.TokenFile) {
				t.Errorf("got %+v, want %+v", g, want)
			}
		})
	}
}
