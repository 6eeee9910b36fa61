package plugin

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	landlocksys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/flynnhost/flynn/host/plugin/jail"
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
	for _, name := range list("connect") {
		conn, err := net.Dial("unix", name)
		if err == nil {
			_ = conn.Close()
		}
		c.Log.Info("spy", "did", "connect "+name, "got", fmt.Sprint(err))
	}
	for name, s := range map[string][3]int{
		"udp":           {unix.AF_INET, unix.SOCK_DGRAM, 0},
		"udp6":          {unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_UDP},
		"tcp":           {unix.AF_INET, unix.SOCK_STREAM, 0},
		"raw":           {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
		"ping":          {unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP},
		"packet":        {unix.AF_PACKET, unix.SOCK_DGRAM, 0},
		"unix datagram": {unix.AF_UNIX, unix.SOCK_DGRAM, 0},
		"netlink":       {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE},
		"audit":         {unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT},
		"unix stream":   {unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, 0},
	} {
		fd, err := unix.Socket(s[0], s[1], s[2])
		if err == nil {
			_ = unix.Close(fd)
		}
		c.Log.Info("spy", "did", "socket "+name, "got", fmt.Sprint(err))
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err == nil {
		_, _ = unix.Close(pair[0]), unix.Close(pair[1])
	}
	c.Log.Info("spy", "did", "pair", "got", fmt.Sprint(err))
	_, err = net.Listen("tcp4", "127.0.0.1:0")
	c.Log.Info("spy", "did", "listen", "got", fmt.Sprint(err))
	c.Log.Info("spy", "did", "signal", "got", fmt.Sprint(unix.Kill(os.Getppid(), 0)))
	var files, core syscall.Rlimit
	_ = syscall.Getrlimit(unix.RLIMIT_NOFILE, &files)
	_ = syscall.Getrlimit(unix.RLIMIT_CORE, &core)
	status, _ := os.ReadFile("/proc/self/status")
	var facts []string
	for line := range strings.Lines(string(status)) {
		for _, key := range []string{"NoNewPrivs:", "CapBnd:", "CapEff:", "CapPrm:", "CapInh:", "CapAmb:", "Uid:"} {
			if strings.HasPrefix(line, key) {
				facts = append(facts, strings.Join(strings.Fields(line), ""))
			}
		}
	}
	c.Log.Info("spy", "did", "limits", "got", fmt.Sprint(files.Max, core.Max, facts, os.Getenv(jail.Env)))
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
	t.Parallel()
	if _, err := landlocksys.LandlockGetABIVersion(); err != nil {
		need.Part(t, "landlock", err)
	}
	if why := jail.FindNamespaces().Why; why != "" {
		need.Part(t, "namespaces", errors.New(why))
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
	engine, abstract := listenUnix(t, filepath.Join(t.TempDir(), "engine.sock")), listenUnix(t, fmt.Sprintf("@flynn-test-%d", os.Getpid()))
	got := spied(t, s, map[string]any{
		"connect": []any{engine, abstract},
		"read":    []any{config, theirs, s.store.dir, filepath.Dir(state), host, "/etc/passwd", "/root", "/home", "/etc/hosts", filepath.Join(dir, ManifestName)},
		"write":   []any{filepath.Join(home, "x"), filepath.Join(state, "x"), filepath.Join(dir, "x"), "/tmp/flynn-spy"},
		"dial":    []any{open.Addr().String()},
		"ports":   []any{port},
		"url":     "http://" + open.Addr().String() + "/api", // the operator's own address, so it may be called
	})
	for did, want := range map[string]string{
		"connect " + engine: refused, "connect " + abstract: "operation not permitted",
		"socket raw": "permission denied", "socket ping": "permission denied", "socket packet": "permission denied", "socket udp": "<nil>",
		"socket unix datagram": "permission denied", "socket audit": "permission denied", "socket unix stream": "<nil>", "pair": "permission denied",
		"read " + config: refused, "read " + theirs: refused, "read " + s.store.dir: refused,
		"read " + filepath.Dir(state): refused, "read " + host: "permission denied", "read /etc/passwd": refused,
		"read /root": refused, "read /home": refused, "read /etc/hosts": "<nil>",
		"read " + filepath.Join(dir, ManifestName): "<nil>",
		"write " + filepath.Join(home, "x"):        refused, "write " + filepath.Join(state, "x"): refused,
		"write " + filepath.Join(dir, "x"): refused, "write /tmp/flynn-spy": refused,
		"write " + filepath.Join(s.config.StateDir, "spy", "kept"): "<nil>", "write TMPDIR/scratch": "<nil>",
		"listen": "permission denied", "signal": "operation not permitted", "limits": "NoNewPrivs:1",
	} {
		have, ok := got[did]
		if want == refused { // a view of its own lacks what Landlock alone refuses
			for _, how := range []string{"permission denied", "no such file", "read-only file system"} {
				if strings.Contains(have, how) {
					want = how
				}
			}
		}
		if !ok || !strings.Contains(have, want) {
			t.Errorf("%s: got %q, want %q", did, have, want)
		}
	}
	if want := "1024 0 "; !strings.HasPrefix(got["limits"], want) || strings.Contains(got["limits"], "}") {
		t.Errorf("limits: got %q, want %q first and nothing of the cell", got["limits"], want)
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if os.Geteuid() == 0 && !strings.Contains(got["limits"], set+":0000000000000000") {
			t.Errorf("root keeps capabilities: %s", got["limits"])
		}
	}
	if have := got["dial "+open.Addr().String()]; have != "<nil>" {
		t.Errorf("an address in the settings: %q", have)
	}
	if have := got["dial host:"+port]; !strings.Contains(have, "permission denied") {
		t.Errorf("an address of nobody's: %q", have)
	}
	for _, m := range s.Containment("spy") {
		if !m.On && m.Name != jail.MeasureMemory {
			t.Errorf("%+v, want it on", m)
		}
	}
}

// TestTheKernelEndsALeak has plugins in control groups: one that leaks, and one that lets another process leak, which a look at the
// plugin's own memory does not find.
func TestTheKernelEndsALeak(t *testing.T) {
	for _, mode := range []string{"leak", "leak-below"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dir := makePack(t, mode, packOptions{})
			s := startContained(t, map[string]string{"actor": dir, "good-actor": makeGood(t)}, Containment{Launcher: testLauncher(t)})
			b := &burden{s, &listener{}}
			s.add(Instance{Name: "good", Plugin: "good-actor"}, b.good)
			s.await("good", Ready)
			if s.groups == nil {
				need.Part(t, "memory control group", errors.New(s.noGroups))
			}
			s.timeouts.exitLag = patience // a process that the kernel ends surely does
			bad := &listener{}
			// Not by the manifest, whose limit of data the race detector could not start in.
			s.add(Instance{Name: "bad", Plugin: "actor", Grant: Grant{Memory: 256 << 20}}, bad)
			if mode == "leak" {
				b.await("bad", Backoff)
				if st := b.status("bad"); !strings.Contains(st.LastError, "used more than 256 MiB") {
					t.Errorf("the host says %q", st.LastError)
				}
			} else {
				b.await("bad", Ready)
				for deadline := time.Now().Add(patience); !endedFor(s.groups, "bad"); time.Sleep(time.Millisecond) { // a poll, not a synchronisation
					if time.Now().After(deadline) {
						t.Fatal("nothing in the group was ended")
					}
				}
			}
			b.unharmed()
			dirs := s.groups.Dir
			s.end()
			if _, err := os.Stat(dirs); err == nil {
				t.Errorf("%s is left", dirs)
			}
		})
	}
}

// endedFor reports whether the kernel has ended something in an instance's control group for its use of memory, in either version's file.
func endedFor(groups *jail.Groups, instance string) bool {
	files, _ := filepath.Glob(filepath.Join(groups.Dir, instance+"-*", "memory.*")) // the kernel's names have no pattern in them
	for _, file := range files {
		if name := filepath.Base(file); name != "memory.oom_control" && name != "memory.events" {
			continue
		}
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok && n != "0" {
				return true
			}
		}
	}
	return false
}

// TestWhoLeavesTheProcessGroupEndsWithThePlugin has one that starts a process in a session of its own, which no signal to the plugin's
// process group reaches.
func TestWhoLeavesTheProcessGroupEndsWithThePlugin(t *testing.T) {
	t.Parallel()
	s := startContained(t, map[string]string{"actor": makePack(t, "deserter", packOptions{})}, Containment{Launcher: testLauncher(t)})
	s.add(Instance{Name: "one", Plugin: "actor"}, &listener{})
	s.await("one", Ready)
	if s.groups == nil {
		need.Part(t, "memory control group", errors.New(s.noGroups))
	}
	s.awaitLog("deserter ")
	_, rest, _ := strings.Cut(s.log.String(), `"deserter `)
	pid, err := strconv.Atoi(rest[:strings.IndexByte(rest, '"')])
	if err != nil || !alive(pid) {
		t.Fatalf("no deserter: %d, %v", pid, err)
	}
	if err := s.Remove("one"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); alive(pid); time.Sleep(time.Millisecond) { // a poll, not a synchronisation
		if time.Now().After(deadline) {
			t.Fatal("the deserter is still there")
		}
	}
}

// refused is what a plugin gets for a file that it must not use.
const refused = "(refused)"

// listenUnix listens as a container engine would, open to everybody, and returns the address.
func listenUnix(t *testing.T, address string) string {
	t.Helper()
	lis, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lis.Close() })
	if !strings.HasPrefix(address, "@") {
		if err := os.Chmod(address, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return address
}

// TestPluginWithoutNetwork has one that asks for none: it can be connected to, and connect to nothing.
func TestPluginWithoutNetwork(t *testing.T) {
	t.Parallel()
	engine, abstract := listenUnix(t, filepath.Join(t.TempDir(), "engine.sock")), listenUnix(t, fmt.Sprintf("@flynn-alone-%d", os.Getpid()))
	open, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	dir := makePack(t, "spy", packOptions{more: "permissions = { state = true }\n"})
	_, port, _ := net.SplitHostPort(open.Addr().String())
	settings := map[string]any{"connect": []any{engine, abstract}, "ports": []any{port}}
	all := []string{
		"connect " + engine, "connect " + abstract, "dial host:" + port, "socket tcp", "socket udp", "socket udp6", "socket raw", "socket packet",
		"socket netlink", "socket unix datagram", "pair", "listen",
	}

	t.Run("held in", func(t *testing.T) {
		s := startContained(t, map[string]string{"actor": dir}, Containment{Launcher: testLauncher(t)})
		got := spied(t, s, settings)
		for _, did := range all {
			if !strings.Contains(got[did], "permission denied") {
				t.Errorf("%s: got %q", did, got[did])
			}
		}
		for _, m := range s.Containment("spy") {
			if want := "none"; (m.Name == jail.MeasureNetwork || m.Name == jail.MeasureSockets) && (!m.On || !strings.HasPrefix(m.Detail, want)) {
				t.Errorf("%+v, want it on, and %q", m, want)
			}
		}
	})
	t.Run("control", func(t *testing.T) { // the same plugin, not held in
		got := spied(t, start(t, map[string]string{"actor": dir}), settings)
		for _, did := range all {
			privileged := did == "socket raw" || did == "socket packet" // it takes more than to be left alone
			if got[did] != "<nil>" && !(privileged && got[did] == "operation not permitted") {
				t.Errorf("%s: got %q, want none refused", did, got[did])
			}
		}
	})
}

func TestUncontainedPluginsSaySo(t *testing.T) {
	t.Parallel()
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
	s.awaitLog("missing=\"[files, network, unix sockets, processes, privileges, descriptors, core dumps, memory: [plugins] containment is")
	if len(measures) != 8 || slices.ContainsFunc(measures, func(m jail.Measure) bool { return m.On || m.Detail == "" }) {
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
		"launcher that is none":  {[]string{"/bin/true"}, "", "it ended before its handshake: exit status 0"},
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

// A program that was installed a moment ago starts, though another child of the host may still have it open for writing.
func TestProgramThatIsStillWritten(t *testing.T) {
	t.Parallel()
	dir := makePack(t, "good", packOptions{})
	binary := filepath.Join(dir, "bin", "actor")
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(binary); err != nil { // it may be this program itself
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, text, 0o700); err != nil {
		t.Fatal(err)
	}
	open, err := os.OpenFile(binary, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := startContained(t, map[string]string{"actor": dir}, Containment{Launcher: testLauncher(t)})
	s.add(Instance{Name: "actor", Plugin: "actor"}, &listener{})
	s.await("actor", Starting)
	time.AfterFunc(300*time.Millisecond, func() { _ = open.Close() })
	if st := s.await("actor", Ready); st.Restarts != 0 {
		t.Errorf("%d restarts: %s", st.Restarts, st.LastError)
	}
}
