package plugin

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	landlocksys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/need"
)

// spy tries what the settings name, and logs what came of it.
func (a *actor) spy(c channel.Config) {
	list := func(key string) (out []string) {
		items, _ := c.Settings[key].([]any)
		for _, item := range items {
			out = append(out, item.(string))
		}
		return out
	}
	for _, name := range list("read") {
		_, err := os.ReadFile(name)
		if err != nil && strings.Contains(err.Error(), "is a directory") {
			_, err = os.ReadDir(name)
		}
		c.Log.Info("spy", "did", "read "+name, "got", fmt.Sprint(err))
	}
	for _, name := range append(list("write"), filepath.Join(c.StateDir, "kept"), filepath.Join(os.Getenv("TMPDIR"), "scratch")) {
		err := os.WriteFile(name, []byte("x"), 0o600)
		c.Log.Info("spy", "did", "write "+strings.Replace(name, os.Getenv("TMPDIR"), "TMPDIR", 1), "got", fmt.Sprint(err))
	}
	for _, address := range list("dial") {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		c.Log.Info("spy", "did", "dial "+address, "got", fmt.Sprint(err))
	}
	for _, port := range list("ports") {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		c.Log.Info("spy", "did", "dial host:"+port, "got", fmt.Sprint(err))
	}
	_, err := net.Listen("tcp4", "127.0.0.1:0")
	c.Log.Info("spy", "did", "listen", "got", fmt.Sprint(err))
	c.Log.Info("spy", "did", "signal", "got", fmt.Sprint(unix.Kill(os.Getppid(), 0)))
	var files, core syscall.Rlimit
	_ = syscall.Getrlimit(unix.RLIMIT_NOFILE, &files)
	_ = syscall.Getrlimit(unix.RLIMIT_CORE, &core)
	status, _ := os.ReadFile("/proc/self/status")
	var facts []string
	for line := range strings.Lines(string(status)) {
		for _, key := range []string{"NoNewPrivs:", "CapBnd:", "CapEff:", "CapPrm:"} {
			if strings.HasPrefix(line, key) {
				facts = append(facts, strings.Join(strings.Fields(line), ""))
			}
		}
	}
	c.Log.Info("spy", "did", "limits", "got", fmt.Sprint(files.Max, core.Max, facts, os.Getenv(cellEnv)))
}

// launcher is the test binary in that part.
func testLauncher(t testing.TB) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, "contain"}
}

// spied runs the spy and returns what it logged: what it did, and what it got.
func spied(t *testing.T, s *stage, settings map[string]any) map[string]string {
	t.Helper()
	s.add(Instance{Name: "spy", Plugin: "actor", Settings: settings}, &listener{})
	s.await("spy", Ready)
	s.awaitLog("did=limits")
	out := map[string]string{}
	lines, err := s.Logs("spy", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if _, rest, ok := strings.Cut(l.Text, "spy did="); ok {
			did, got, _ := strings.Cut(rest, " got=")
			out[strings.Trim(did, `"`)] = strings.Trim(got, `"`)
		}
	}
	return out
}

const spyManifest = "permissions = { state = true, network = [\"example.com:443\"] }\n"

func TestContainedPluginSeesNothingOfItsHost(t *testing.T) {
	if _, err := landlocksys.LandlockGetABIVersion(); err != nil {
		need.Part(t, "landlock", err)
	}
	home := t.TempDir()
	config := filepath.Join(home, "flynn.toml")
	if err := os.WriteFile(config, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	open, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	dir := makePack(t, "spy", packOptions{more: spyManifest})
	s := startContained(t, map[string]string{"actor": dir}, Containment{Launcher: testLauncher(t), Required: true, Secret: []string{config, home}})
	state := filepath.Join(s.config.StateDir, "neighbour")
	if err := os.MkdirAll(state, 0o755); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(state, "session.db")
	if err := os.WriteFile(theirs, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	host := fmt.Sprintf("/proc/%d/environ", os.Getpid())
	_, port, _ := net.SplitHostPort(other.Addr().String())
	got := spied(t, s, map[string]any{
		"read":  []any{config, theirs, s.store.dir, filepath.Dir(state), host, "/etc/passwd", "/root", "/home", "/etc/hosts", filepath.Join(dir, ManifestName)},
		"write": []any{filepath.Join(home, "x"), filepath.Join(state, "x"), filepath.Join(dir, "x"), "/tmp/flynn-spy"},
		"dial":  []any{open.Addr().String()},
		"ports": []any{port},
		"url":   "http://" + open.Addr().String() + "/api", // the operator's own address, so it may be called
	})
	for did, want := range map[string]string{
		"read " + config: "permission denied", "read " + theirs: "permission denied", "read " + s.store.dir: "permission denied",
		"read " + filepath.Dir(state): "permission denied", "read " + host: "permission denied", "read /etc/passwd": "permission denied",
		"read /root": "permission denied", "read /home": "permission denied", "read /etc/hosts": "<nil>",
		"read " + filepath.Join(dir, ManifestName): "<nil>",
		"write " + filepath.Join(home, "x"):        "permission denied", "write " + filepath.Join(state, "x"): "permission denied",
		"write " + filepath.Join(dir, "x"): "permission denied", "write /tmp/flynn-spy": "permission denied",
		"write " + filepath.Join(s.config.StateDir, "spy", "kept"): "<nil>", "write TMPDIR/scratch": "<nil>",
		"listen": "permission denied", "signal": "operation not permitted", "limits": "NoNewPrivs:1",
	} {
		if have, ok := got[did]; !ok || !strings.Contains(have, want) {
			t.Errorf("%s: got %q, want %q", did, have, want)
		}
	}
	if want := "1024 0 "; !strings.HasPrefix(got["limits"], want) || strings.Contains(got["limits"], "}") {
		t.Errorf("limits: got %q, want %q first and nothing of the cell", got["limits"], want)
	}
	if os.Geteuid() == 0 && !strings.Contains(got["limits"], "CapEff:0000000000000000") {
		t.Errorf("root keeps capabilities: %s", got["limits"])
	}
	if have := got["dial "+open.Addr().String()]; have != "<nil>" {
		t.Errorf("an address in the settings: %q", have)
	}
	if have := got["dial host:"+port]; !strings.Contains(have, "permission denied") {
		t.Errorf("an address of nobody's: %q", have)
	}
	for _, m := range s.Containment("spy") {
		if want := m.Name != MeasureMemory; m.On != want {
			t.Errorf("%+v, want on %t", m, want)
		}
	}
}

func TestUncontainedPluginsSaySo(t *testing.T) {
	dir := makePack(t, "spy", packOptions{more: spyManifest})
	s := start(t, map[string]string{"actor": dir})
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := spied(t, s, map[string]any{"read": []any{secret}})
	if got["read "+secret] != "<nil>" {
		t.Errorf("got %q", got["read "+secret])
	}
	measures := s.Containment("spy")
	if len(measures) != 7 || slices.ContainsFunc(measures, func(m Measure) bool { return m.On || m.Detail == "" }) {
		t.Errorf("got %+v", measures)
	}
}

func TestContainmentThatIsRequiredAndMissing(t *testing.T) {
	for name, c := range map[string]struct {
		launcher []string
		secret   string // that the plugin's own manifest lets it read
		says     string
	}{
		"no launcher":            {nil, "", "the host was started without a launcher"},
		"a secret can be read":   {testLauncher(t), "/etc/hosts", "/etc/hosts can be read"},
		"launcher that is none":  {[]string{"/bin/true"}, "", "Failed to read any lines"},
		"launcher that is lost":  {[]string{"/nowhere/flynn"}, "", "no such file"},
		"launcher without a job": {[]string{testLauncher(t)[0], "contain", "x"}, "/etc/hosts", "can be read"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := makePack(t, "spy", packOptions{more: spyManifest})
			contain := Containment{Launcher: c.launcher, Required: true}
			if c.secret != "" {
				if _, err := landlocksys.LandlockGetABIVersion(); err != nil {
					need.Part(t, "landlock", err)
				}
				contain.Secret = []string{c.secret}
			}
			s := startContained(t, map[string]string{"actor": dir}, contain)
			s.add(Instance{Name: "spy", Plugin: "actor"}, &listener{})
			s.awaitThat("a refusal", func(st Status) bool { return strings.Contains(st.LastError, c.says) })
		})
	}
}

func TestPorts(t *testing.T) {
	for name, c := range map[string]struct {
		network  []string
		settings map[string]any
		want     string
	}{
		"none":                {nil, nil, "[] false"},
		"one":                 {[]string{"example.com:443"}, nil, "[53 443] false"},
		"several hosts":       {[]string{"*:6667", "*:6697"}, nil, "[53 6667 6697] false"},
		"any port":            {[]string{"example.com:*"}, nil, "[] true"},
		"no port":             {[]string{"example.com"}, nil, "[] true"},
		"a URL in settings":   {nil, map[string]any{"base_url": "http://127.0.0.1:8081/bot"}, "[53 8081] false"},
		"a scheme's own port": {nil, map[string]any{"base_url": "wss://example.com"}, "[53 443] false"},
		"deep in settings":    {[]string{"a:1"}, map[string]any{"servers": []any{map[string]any{"address": "irc.example.com:7000"}}}, "[1 53 7000] false"},
		"words in settings":   {nil, map[string]any{"topic": "note: this", "time": "12:30"}, "[30 53] false"},
		"ports out of range":  {nil, map[string]any{"a": "h:70000", "b": "h:0", "c": "h:-1"}, "[] false"},
	} {
		t.Run(name, func(t *testing.T) {
			list, all := ports(Manifest{Permissions: Permissions{Network: c.network}}, c.settings)
			if got := fmt.Sprint(list, all); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
