package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/admin/backup"
	"github.com/flynnhost/flynn/host/agent/turnlog"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/modeltest"
	"github.com/flynnhost/flynn/host/observe/hostlog"
	"github.com/flynnhost/flynn/host/plugin"
	"github.com/flynnhost/flynn/host/plugin/service"
	"github.com/flynnhost/flynn/host/route"
	"github.com/flynnhost/flynn/host/sandbox/fleet/drivers"
	"github.com/flynnhost/flynn/host/store/sqlite"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/need"
)

func TestMain(m *testing.M) {
	if os.Getenv("DOCTOR_TEST_PLUGIN") != "" {
		channel.Main(&actor{})
		return
	}
	os.Exit(m.Run())
}

// actor is a channel that does what its setting says.
type actor struct{ act string }

func (a *actor) Describe() channel.Description {
	return channel.Description{Name: "telegram", Version: "1.0.0", Capabilities: channel.Capabilities{Senders: channel.SendersProved}}
}

func (a *actor) Configure(_ context.Context, c channel.Config) error {
	var s struct {
		Act string `json:"act"`
	}
	err := c.Decode(&s)
	a.act = s.Act
	return err
}

func (a *actor) Run(ctx context.Context, in channel.Inbox) error {
	switch a.act {
	case "refused":
		in.Status(channel.StateAuthRequired, "the platform does not know the token")
	case "lost":
		in.Status(channel.StateDegraded, "another program takes this bot's messages")
	case "fails":
		return fmt.Errorf("no such server")
	default:
		in.Status(channel.StateReady, "@flynn, in privacy mode")
	}
	<-ctx.Done()
	return nil
}

func (a *actor) Send(context.Context, channel.Send) (channel.Sent, error) { return channel.Sent{}, nil }

// site is a Flynn to break.
type site struct {
	*testing.T
	dir    string
	listen string // of the gateway
	text   string // of flynn.toml
	env    map[string]string
	free   uint64 // bytes on the disk
	system string
	// host answers for a running flynn; nil is none.
	host *Running
}

// sound returns a site on which nothing is wrong or weak, with a store that has been used.
func sound(t *testing.T) *site {
	s := &site{T: t, dir: t.TempDir(), listen: need.Address(t), env: map[string]string{}, free: 1 << 40, system: "linux"}
	s.env["HOME"] = s.dir
	must(t, os.Chmod(s.dir, 0o700))
	s.text = "[gateway]\nlisten = \"" + s.listen + "\"\nPUBLIC\n[store]\ndir = \"data\"\n[agent_configs.main]\n[routing]\ndefault_agent = \"main\"\n"
	s.turn(time.Now().Add(-time.Hour))
	return s
}

// turn leaves a turn in the store.
func (s *site) turn(at time.Time) {
	store, err := sqlite.Open(s.Context(), s.path("data"))
	must(s, err)
	must(s, store.CommitTurn(s.Context(), turnlog.Commit{Turn: turnlog.Turn{
		ID: "t" + at.Format("150405"), Session: "web:c:main", Agent: "main", Channel: "web", Conversation: message.Conversation{ID: "c"},
		State: turnlog.TurnDone, Started: at, Ended: at,
	}}))
	must(s, store.Close())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

func (s *site) write(name, text string) {
	must(s, os.MkdirAll(filepath.Dir(s.path(name)), 0o700))
	must(s, os.WriteFile(s.path(name), []byte(text), 0o600))
}

// look examines the site.
func (s *site) look() Report {
	s.Helper()
	if s.text != "" {
		s.write("flynn.toml", strings.Replace(s.text, "PUBLIC\n", "", 1))
	}
	if s.host != nil {
		s.serve()
	}
	subject := Subject{
		Path: s.path("flynn.toml"), Getenv: func(key string) string { return s.env[key] }, Version: "v1", Log: slog.New(slog.DiscardHandler),
		Checks: []config.Check{routes},
	}
	x := &exam{Subject: subject, input: subject.load(s.Context()), free: func(string) (uint64, error) { return s.free, nil }, system: s.system}
	return x.run(s.Context())
}

func routes(c *config.Config) (wrong config.Errors) {
	_, findings := route.New(c)
	for _, f := range findings {
		if !f.Warning {
			wrong = append(wrong, f.Error)
		}
	}
	return wrong
}

// serve answers at the address of the gateway as a host does.
func (s *site) serve() {
	s.write("data/gateway.token", strings.Repeat("t", 43)+"\n")
	ln, err := net.Listen("tcp", s.listen)
	must(s, err)
	answers := map[string]any{"/api/v1/status": s.host.Status, "/api/v1/plugins": s.host.Plugins, "/api/v1/logs/repeats": s.host.Repeats, "/api/v1/cluster": s.host.Cluster}
	server := &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+strings.Repeat("t", 43) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(answers[r.URL.Path])
	})}}
	server.Start()
	s.Cleanup(server.Close)
}

// model configures a tier whose server answers with reply, and lists models as list says.
func (s *site) model(reply modeltest.Reply, list string, date time.Time, more string) {
	fake := modeltest.New(s)
	fake.Script(reply)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", date.UTC().Format(http.TimeFormat))
		switch {
		case r.URL.Path == "/v1/models" && list != "":
			fmt.Fprint(w, list)
		case r.URL.Path == "/api/ps" && strings.Contains(more, "# ollama"):
			fmt.Fprint(w, `{"models":[{"name":"test-model:latest","context_length":4096}]}`)
		default:
			fake.ServeHTTP(w, r)
		}
	}))
	s.Cleanup(server.Close)
	s.write("key", modeltest.Key+"\n")
	s.text += fmt.Sprintf("[models.default]\nprovider = \"openai\"\nmodel = \"test-model\"\nbase_url = %q\napi_key_file = \"key\"\n%s\n", server.URL+"/v1", more)
}

// search configures a search service that answers everything so.
func (s *site) search(status int, answer string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	s.Cleanup(server.Close)
	s.write("key", "the-key-of-a-search\n")
	s.text += fmt.Sprintf("[[search]]\nprovider = \"tavily\"\nbase_url = %q\napi_key_file = \"key\"\n", server.URL)
}

// channel configures a channel whose plugin does what act says.
func (s *site) channel(act, more string) {
	s.write("plugin/plugin.toml", "manifest = 1\nname = \"telegram\"\nversion = \"1.0.0\"\nkinds = [\"channel\"]\nprotocols = [1]\n"+
		"exec = { any = [\"sh\", \"main.sh\"] }\n[channel]\nsenders = \"proved\"\n")
	program, err := os.Executable()
	must(s, err)
	s.write("plugin/main.sh", "DOCTOR_TEST_PLUGIN=1 exec '"+program+"'\n")
	s.text += fmt.Sprintf("[plugins]\ncontainment = \"auto\"\n[plugins.dev_paths]\ntelegram = \"plugin\"\n[channels.tele]\nplugin = \"telegram\"\nact = %q\n%s\n", act, more)
}

// engine configures a container engine that has only the runtime runc, and no image.
func (s *site) engine() {
	dir, err := os.MkdirTemp("/tmp", "fd") // short enough for a socket
	must(s, err)
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(s, err)
	server := &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.47")
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
		case strings.HasSuffix(r.URL.Path, "/version"):
			fmt.Fprint(w, `{"Version":"27.0","Components":[{"Name":"Engine","Version":"27.0"}]}`)
		case strings.HasSuffix(r.URL.Path, "/info"):
			fmt.Fprint(w, `{"ServerVersion":"27.0","Runtimes":{"runc":{}}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"No such image"}`)
		}
	})}}
	server.Start()
	s.Cleanup(server.Close)
	s.text += fmt.Sprintf("[sandbox]\nenabled = true\nengine = \"unix://%s\"\n", filepath.Join(dir, "s"))
}

const (
	listed = `{"data":[{"id":"test-model","context_length":8000},{"id":"other"}]}`
	up     = "v1"
)

type broken struct {
	code  Code
	name  string
	smash func(s *site)
	also  []Code
}

// brokenSites breaks each thing. A function changes a sound site, and the report of the result has the code and those of also, and no other.
var brokenSites = []broken{
	{ConfigMissing, "", func(s *site) { s.text = "" }, nil},
	{ConfigError, "a misspelt key", func(s *site) { s.text += "[budgets]\nsteps_per_trun = 3\n" }, nil},
	{ConfigError, "no TOML", func(s *site) { s.text += "[[[\n" }, nil},
	{ConfigError, "a setting that the plugin's schema refuses", func(s *site) {
		s.channel("", "colour = 1")
		s.write("plugin/schema.json", `{"type":"object","additionalProperties":false,"properties":{"act":{"type":"string"}}}`)
		s.write("plugin/plugin.toml", strings.Replace(must2(os.ReadFile(s.path("plugin/plugin.toml"))), "[channel]", "[config]\nschema = \"schema.json\"\n[channel]", 1))
	}, []Code{ChannelDown}},
	{ConfigWarning, "an allowlist that is not used", func(s *site) {
		s.text += "[sandbox]\nallowlist = [\"a.example\"]\n"
	}, nil},
	{ConfigRenamed, "", func(s *site) { s.text += "[sandbox]\nlocal_doors = true\n" }, nil},
	{SecretMissing, "a variable", func(s *site) {
		s.text += "[models.default]\nprovider = \"anthropic\"\nmodel = \"m\"\napi_key_env = \"NO_SUCH_KEY\"\n"
	}, nil},
	{SecretMissing, "a file", func(s *site) {
		s.text += "[models.default]\nprovider = \"anthropic\"\nmodel = \"m\"\napi_key_file = \"none\"\n"
	}, nil},
	{StoreDamaged, "junk", func(s *site) { s.write("data/flynn.db", strings.Repeat("junk", 5000)) }, nil},
	{StoreDamaged, "a page", func(s *site) {
		f, err := os.OpenFile(s.path("data/flynn.db"), os.O_WRONLY, 0)
		must(s, err)
		_, err = f.WriteAt([]byte(strings.Repeat("x", 3000)), 4*4096)
		must(s, err)
		must(s, f.Close())
	}, nil},
	{StoreDamaged, "gone", func(s *site) { must(s, os.Remove(s.path("data/flynn.db"))) }, nil},
	{StoreNewer, "", func(s *site) { s.version(999) }, nil},
	{StoreUnreachable, "", func(s *site) {
		s.text = strings.Replace(s.text, "dir = \"data\"\n", "dir = \"data\"\nurl_env = \"DB\"\n", 1)
		s.env["DB"] = "postgres://flynn:pa55@/flynn?host=" + s.dir
	}, nil},
	{StoreRoom, "", func(s *site) { s.free = 100 << 20 }, nil},
	{BackupOld, "none", func(s *site) {
		s.text += "[backup]\nto = \"backups\"\nrecipients = [\"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p\"]\n"
		s.host = &Running{Status: gateway.Status{Version: up}}
	}, nil},
	{BackupOld, "an old one", func(s *site) {
		s.text += "[backup]\nto = \"backups\"\nrecipients = [\"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p\"]\n"
		s.write("backups/"+backup.Name(time.Now().AddDate(0, 0, -3)), "x")
		s.host = &Running{Status: gateway.Status{Version: up}}
	}, nil},
	{StoreInUse, "", func(s *site) {
		lock, err := sqlite.Lock(s.path("data"))
		must(s, err)
		s.Cleanup(func() { _ = lock.Close() })
	}, nil},
	{ModelUnreachable, "", func(s *site) {
		s.text += "[models.default]\nprovider = \"openai\"\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:1/v1\"\n"
	}, nil},
	{ModelKeyRefused, "", func(s *site) {
		s.model(modeltest.Reply{Fail: modeltest.BadKey}, "", time.Now(), "")
	}, nil},
	{ModelNoCredit, "", func(s *site) {
		s.model(modeltest.Reply{Status: 402, ContentType: "application/json", Raw: `{"error":{"message":"no credit"}}`}, listed, time.Now(), "")
	}, nil},
	{ModelUnknown, "", func(s *site) {
		s.model(modeltest.Reply{Status: 404, ContentType: "application/json", Raw: `{"error":{"message":"no such model"}}`}, listed, time.Now(), "")
	}, nil},
	{ModelFails, "", func(s *site) {
		s.model(modeltest.Reply{Status: 500, ContentType: "application/json", Raw: `{"error":{"message":"oops"}}`}, listed, time.Now(), "")
	}, nil},
	{ModelWindow, "larger than the server's", func(s *site) {
		s.model(modeltest.Reply{Text: "ready"}, listed, time.Now(), "context_window = 9000")
	}, nil},
	{ModelWindow, "not told to an Ollama", func(s *site) {
		s.model(modeltest.Reply{Text: "ready"}, `{"data":[{"id":"test-model:latest"}]}`, time.Now(), "# ollama")
	}, nil},
	{SearchKeyRefused, "", func(s *site) { s.search(401, `{"error":"no"}`) }, nil},
	{SearchChallenged, "", func(s *site) { s.search(403, "<title>Just a moment...</title>") }, nil},
	{SearchQuotaSpent, "", func(s *site) { s.search(432, `{"detail":{"error":"no"}}`) }, nil},
	{SearchEmpty, "", func(s *site) { s.search(200, `{"results":[]}`) }, nil},
	{SearchFails, "a failure of its own", func(s *site) { s.search(500, "") }, nil},
	{SearchFails, "nothing there", func(s *site) {
		s.text += "[[search]]\nprovider = \"searxng\"\nbase_url = \"http://127.0.0.1:1\"\n"
	}, nil},
	{SecretMissing, "of a search service", func(s *site) {
		s.text += "[[search]]\nprovider = \"exa\"\napi_key_env = \"NO_SUCH_KEY\"\n"
	}, nil},
	{ClockWrong, "by a server", func(s *site) { s.model(modeltest.Reply{Text: "ready"}, listed, time.Now().Add(-time.Hour), "") }, nil},
	{ClockWrong, "by the store", func(s *site) { s.turn(time.Now().Add(48 * time.Hour)) }, nil},
	{ChannelDegraded, "", func(s *site) { s.channel("lost", "") }, nil},
	{ChannelDegraded, "of a running flynn", func(s *site) {
		s.channel("", "")
		s.host = &Running{Status: gateway.Status{Version: up}, Plugins: []gateway.PluginStatus{{Name: "tele", State: string(plugin.Degraded), Detail: "degraded: no account-tag"}}}
	}, nil},
	{ChannelDown, "ends", func(s *site) { s.channel("fails", "") }, nil},
	{ChannelDown, "of a running flynn", func(s *site) {
		s.channel("", "")
		s.host = &Running{Status: gateway.Status{Version: up}, Plugins: []gateway.PluginStatus{{Name: "tele", State: string(plugin.Quarantined), LastError: "it fell over"}}}
	}, nil},
	{ChannelToken, "", func(s *site) { s.channel("refused", "") }, nil},
	{ChannelToken, "of a running flynn", func(s *site) {
		s.channel("", "")
		s.host = &Running{Status: gateway.Status{Version: up}, Plugins: []gateway.PluginStatus{{Name: "tele", State: string(plugin.Degraded), Detail: plugin.CredentialRefused + ": no"}}}
	}, nil},
	{ChannelPrivacy, "", func(s *site) { s.channel("", "access_groups = \"all\"") }, []Code{PluginLoose}},
	{WebhookUnreachable, "another server", func(s *site) {
		other := httptest.NewServer(http.NotFoundHandler())
		s.Cleanup(other.Close)
		s.public(other.URL)
	}, nil},
	{WebhookUnreachable, "nothing", func(s *site) { s.public("http://127.0.0.1:1") }, nil},
	{EngineSilent, "", func(s *site) { s.text += "[sandbox]\nenabled = true\nengine = \"unix:///no/engine.sock\"\n" }, nil},
	{EngineSilent, "of a running flynn", func(s *site) {
		s.text += "[sandbox]\nenabled = true\nengine = \"unix:///no/engine.sock\"\n"
		s.host = &Running{Status: gateway.Status{Version: up, Sandbox: gateway.SandboxStatus{Enabled: true, Detail: "no engine"}}}
	}, nil},
	{EngineRuntime, "", func(s *site) { s.engine(); s.text += "runtime = \"runsc\"\n" }, []Code{SandboxImage}},
	{EngineLacks, "", func(s *site) {
		s.engine()
		s.host = &Running{Status: gateway.Status{Version: up, Sandbox: gateway.SandboxStatus{Enabled: true, Available: true, Lacks: []string{"memory_limit: no control groups"}}}}
	}, []Code{SandboxImage}},
	{LimitRefused, "", func(s *site) {
		s.engine()
		s.host = &Running{Status: gateway.Status{Version: up, Sandbox: gateway.SandboxStatus{
			Enabled: true, Detail: "this machine cannot hold memory_limit", Lacks: []string{"memory_limit: no control groups"},
		}}}
	}, nil},
	{FeatureRefused, "", func(s *site) { s.engine(); s.text += "requires = [\"user-namespaces\", \"snapshots\"]\n" }, []Code{SandboxImage}},
	{EngineFeature, "", func(s *site) { s.engine(); s.text += "prefers = [\"seccomp\"]\n" }, []Code{SandboxImage}},
	{DriverRefused, "", func(s *site) {
		s.engine()
		s.host = &Running{Status: gateway.Status{Version: up, Sandbox: gateway.SandboxStatus{Enabled: true, Detail: "driver pods: " + drivers.ErrNotHeld.Error()}}}
	}, nil},
	{SandboxImage, "", func(s *site) { s.engine() }, nil},
	{SandboxFallsBack, "", func(s *site) { s.engine(); s.text += "on_unavailable = \"host\"\n" }, []Code{SandboxImage}},
	{SandboxHostNetwork, "", func(s *site) { s.engine(); s.text += "network = \"host\"\n" }, []Code{SandboxImage}},
	{PluginMissing, "", func(s *site) { s.text += "[channels.x]\nplugin = \"no-such-thing\"\n" }, nil},
	{PluginChanged, "", func(s *site) {
		s.channel("", "")
		store, err := plugin.OpenStore(s.path("data/plugins"))
		must(s, err)
		got, err := store.InstallFolder(s.path("plugin"), plugin.Options{})
		must(s, err)
		file := filepath.Join(s.path("data/plugins/store"), got.Name, got.Version, "any", "main.sh")
		must(s, os.Chmod(filepath.Dir(file), 0o700))
		must(s, os.Chmod(file, 0o600))
		must(s, os.WriteFile(file, []byte("exit 1\n"), 0o600))
	}, []Code{PluginLoose}},
	{PluginDown, "", func(s *site) {
		s.write("plugin/plugin.toml", "manifest = 1\nname = \"tt\"\nversion = \"1.0.0\"\nkinds = [\"tools\"]\nprotocols = [1]\nexec = { any = [\"sh\", \"main.sh\"] }\n")
		s.text += "[plugins.dev_paths]\ntt = \"plugin\"\n[tools.t]\nplugin = \"tt\"\n"
		s.host = &Running{Status: gateway.Status{Version: up}, Plugins: []gateway.PluginStatus{{Name: "t", State: string(plugin.Backoff), LastError: "it fell over"}}}
	}, nil},
	{PluginLoose, "without a launcher", func(s *site) { s.channel("", "") }, nil},
	{PluginLoose, "off", func(s *site) {
		s.channel("", "")
		s.text = strings.Replace(s.text, `containment = "auto"`, `containment = "off"`, 1)
	}, nil},
	{PolicyFails, "", func(s *site) {
		s.write("p.wasm", "junk")
		s.text += "[[policies]]\nname = \"p\"\npath = \"p.wasm\"\nkinds = [\"tool\"]\n"
	}, nil},
	{PolicyLenient, "", func(s *site) {
		s.write("p.wasm", "junk")
		s.text += "[[policies]]\nname = \"p\"\npath = \"p.wasm\"\nkinds = [\"tool\"]\ndangerously_allow_on_error = true\n"
	}, []Code{PolicyFails}},
	{SenderUnproved, "a nick", func(s *site) {
		s.channel("", "trust_senders = true\n[access]\nowners = [\"tele:ann\"]")
		s.write("plugin/plugin.toml", strings.Replace(must2(os.ReadFile(s.path("plugin/plugin.toml"))), "proved", "claimed", 1))
	}, []Code{ChannelDown}},
	{ToolsForStrangers, "", func(s *site) {
		s.channel("", "access = \"open\"")
		s.text = strings.Replace(s.text, "[agent_configs.main]\n", "[agent_configs.main]\ntool_profile = \"coding\"\n", 1)
	}, []Code{PluginLoose}},
	{SpendingUnlimited, "", func(s *site) {
		s.channel("", "access = \"open\"")
		s.model(modeltest.Reply{Text: "ready"}, listed, time.Now(), "")
	}, []Code{PluginLoose}},
	{PageUnencrypted, "", func(s *site) {
		s.text = strings.Replace(s.text, "PUBLIC\n", "origins = [\"http://flynn.example\", \"https://flynn.example\", \"http://localhost:1\"]\n", 1)
	}, nil},
	{FileReadable, "a secret", func(s *site) {
		s.model(modeltest.Reply{Text: "ready"}, listed, time.Now(), "")
		must(s, os.Chmod(s.path("key"), 0o644))
	}, nil},
	{FileReadable, "the store", func(s *site) { must(s, os.Chmod(s.path("data"), 0o755)) }, nil},
	{FileReadable, "variables", func(s *site) { s.write("flynn.env", "KEY=1\n"); must(s, os.Chmod(s.path("flynn.env"), 0o640)) }, nil},
	{FileWritable, "a policy's folder", func(s *site) {
		s.write("p/p.wasm", "junk")
		must(s, os.Chmod(s.path("p"), 0o777))
		s.text += "[[policies]]\nname = \"p\"\npath = \"p/p.wasm\"\nkinds = [\"tool\"]\n"
	}, []Code{PolicyFails}},
	{AddressTaken, "", func(s *site) {
		ln, err := net.Listen("tcp", s.listen)
		must(s, err)
		s.Cleanup(func() { _ = ln.Close() })
	}, nil},
	{AddressTaken, "by another flynn", func(s *site) {
		s.host = &Running{}
		s.serve()
		s.host = nil
		s.write("data/gateway.token", strings.Repeat("u", 43)+"\n")
	}, nil},
	{HostIdle, "", func(s *site) { s.host = &Running{Status: gateway.Status{Version: up, Idle: "differs"}} }, nil},
	{HostUnreached, "", func(s *site) {
		s.host = &Running{Status: gateway.Status{Version: up}, Cluster: gateway.ClusterStatus{Hosts: []gateway.ClusterHost{
			{Name: "a", Peer: "a:1", Reached: "yes"}, {Name: "b", Peer: "b:1", Reached: "no", Unreached: "connection refused"}, {Name: "c", Peer: "c:1"},
		}}}
	}, nil},
	{VersionDiffers, "", func(s *site) { s.host = &Running{Status: gateway.Status{Version: "v0"}} }, nil},
	{Halted, "", func(s *site) {
		s.host = &Running{Status: gateway.Status{Version: up, Halt: &gateway.HaltStatus{By: "web:owner"}}}
	}, nil},
	{LogRepeats, "of a channel", func(s *site) {
		s.host = &Running{Status: gateway.Status{Version: up}, Repeats: []hostlog.Repeat{
			{Level: "WARN", Area: "plugin", Message: "connection ended", Instance: "tele", Detail: "refused", Count: 7},
		}}
	}, nil},
	{LogRepeats, "", func(s *site) {
		s.host = &Running{Status: gateway.Status{Version: up}, Repeats: []hostlog.Repeat{{Level: "WARN", Area: "agent", Message: "it is odd", Count: 7}}}
	}, nil},
}

func must2(text []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(text)
}

// version gives the database a schema version.
func (s *site) version(n uint32) {
	f, err := os.OpenFile(s.path("data/flynn.db"), os.O_RDWR, 0)
	must(s, err)
	defer f.Close()
	_, err = f.WriteAt([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, 60)
	must(s, err)
}

// public serves webhooks at an address, for a running flynn.
func (s *site) public(url string) {
	s.text = strings.Replace(s.text, "PUBLIC\n", fmt.Sprintf("hooks_listen = \"127.0.0.1:7352\"\npublic_url = %q\n", url), 1)
	s.host = &Running{Status: gateway.Status{Version: up}}
}

func codes(r Report) (all []Code) {
	for _, f := range r.Findings {
		all = append(all, f.Code)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestBrokenThingsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range brokenSites {
		t.Run(strings.TrimSuffix(string(c.code)+"/"+c.name, "/"), func(t *testing.T) {
			t.Parallel()
			s := sound(t)
			c.smash(s)
			r := s.look()
			want := append([]Code{c.code}, c.also...)
			slices.Sort(want)
			if got := codes(r); !slices.Equal(got, want) {
				t.Errorf("found %v, want %v\n%s", got, want, text(r))
			}
			checkText(t, r)
		})
	}
}

func text(r Report) string { return strings.Join(r.Lines(func(_, s string) string { return s }), "\n") }

// checkText checks that a report fits the terminal, and says what to do about everything.
func checkText(t *testing.T, r Report) {
	t.Helper()
	for _, line := range r.Lines(func(_, s string) string { return s }) {
		if len([]rune(line)) > columns && !strings.HasPrefix(line, "    run  ") {
			t.Errorf("a line of %d columns: %s", len([]rune(line)), line)
		}
	}
	for _, f := range r.Findings {
		if f.What == "" || f.Why == "" || f.Mend == "" && f.Command == "" || f.Page != "docs/help/doctor/"+string(f.Code)+".md" {
			t.Errorf("incomplete: %+v", f)
		}
		if strings.Contains(fmt.Sprintf("%+v", f), modeltest.Key) {
			t.Errorf("it shows the key: %+v", f)
		}
	}
}

// TestEveryCodeIsBroken keeps a code from being without a test. flynn-sandboxd cannot be missing for a test binary, which builds it: the
// script of flynn doctor has a release without it.
func TestEveryCodeIsBroken(t *testing.T) {
	for _, code := range Codes() {
		if code == SandboxSupervisor {
			continue
		}
		if !slices.ContainsFunc(brokenSites, func(b broken) bool { return b.code == code }) {
			t.Errorf("no test breaks %s", code)
		}
	}
}

func TestSoundSitesHaveNoFindings(t *testing.T) {
	for name, build := range map[string]func(s *site){
		"small": func(*site) {},
		"new":   func(s *site) { must(s, os.RemoveAll(s.path("data"))) },
		"a model": func(s *site) {
			s.model(modeltest.Reply{Text: "ready"}, listed, time.Now(), "context_window = 8000")
		},
		"a model that lists nothing": func(s *site) { s.model(modeltest.Reply{Text: "ready"}, "", time.Now(), "context_window = 100000") },
		"a limit that passes":        func(s *site) { s.model(modeltest.RateLimited(time.Second), listed, time.Now(), "") },
		"a running flynn": func(s *site) {
			s.channel("", "")
			s.host = &Running{Status: gateway.Status{Version: up}, Plugins: []gateway.PluginStatus{
				{Name: "tele", State: string(plugin.Starting), Since: time.Now()},
			}}
		},
		"a running flynn with a key of its own": func(s *site) {
			s.text += "[models.default]\nprovider = \"anthropic\"\nmodel = \"m\"\napi_key_env = \"NO_SUCH_KEY\"\n"
			s.host = &Running{Status: gateway.Status{Version: up}}
		},
		"webhooks": func(s *site) {
			values, err := sqlite.Open(s.Context(), s.TempDir())
			must(s, err)
			s.Cleanup(func() { _ = values.Close() })
			hooks, err := service.New(service.Config{Values: values})
			must(s, err)
			server := httptest.NewServer(hooks.Hooks())
			s.Cleanup(server.Close)
			s.public(server.URL)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sound(t)
			build(s)
			if r := s.look(); len(r.Findings) > 0 {
				t.Errorf("found\n%s", text(r))
			} else if lines := r.Lines(func(_, s string) string { return s }); lines[len(lines)-1] != "nothing is wrong or weak" {
				t.Errorf("printed\n%s", text(r))
			}
		})
	}
}

func TestFix(t *testing.T) {
	s := sound(t)
	must(t, os.Chmod(s.path("data"), 0o755))
	s.write("flynn.env", "KEY=1\n")
	must(t, os.Chmod(s.path("flynn.env"), 0o664))
	for _, f := range s.look().Findings {
		must(t, Fix(f))
	}
	if r := s.look(); len(r.Findings) > 0 {
		t.Errorf("left\n%s", text(r))
	}
	if info, err := os.Stat(s.path("flynn.env")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	must(t, os.Symlink(s.path("flynn.env"), s.path("link")))
	if Fix(Finding{Code: FileReadable, File: s.path("link"), Fixable: true, remove: othersAll}) == nil {
		t.Error("a link was followed")
	}
}

// TestPages checks that the codes and the pages are the same, and that each page says what it is about and how to mend it.
func TestPages(t *testing.T) {
	const dir = "../../../docs/help/doctor"
	files, err := os.ReadDir(dir)
	must(t, err)
	index := must2(os.ReadFile(filepath.Join(dir, "README.md")))
	var pages []Code
	for _, f := range files {
		if f.Name() != "README.md" {
			pages = append(pages, Code(strings.TrimSuffix(f.Name(), ".md")))
		}
	}
	if !slices.Equal(pages, Codes()) {
		t.Errorf("pages %v, codes %v", pages, Codes())
	}
	for _, code := range pages {
		text := must2(os.ReadFile(filepath.Join(dir, string(code)+".md")))
		k, word := kinds()[code], "wrong "
		if k.weak {
			word = "weak "
		}
		text = strings.Join(strings.Fields(text), " ")
		for _, part := range []string{"## Why it matters ", "## Mend it ", " " + word, " why " + k.why + " ", " page " + code.Page() + " "} {
			if !strings.Contains(text, part) {
				t.Errorf("%s has no %q", code.Page(), part)
			}
		}
		if !strings.Contains(index, "("+string(code)+".md)") {
			t.Errorf("the index does not have %s", code)
		}
	}
}

// TestMacOS checks that the doctor names what macOS lacks, and how its engine is started.
func TestMacOS(t *testing.T) {
	measures := []gateway.PluginMeasure{{Name: "files", Detail: "none here"}, {Name: "memory", Detail: "none here"}, {Name: "core dumps", On: true}}
	for system, want := range map[string]string{"linux": "is not restricted in: files (none here)", "darwin": "is not restricted in: files, memory (none here)"} {
		s := sound(t)
		s.system = system
		s.channel("", "")
		s.text += "[sandbox]\nenabled = true\nengine = \"unix:///no/engine.sock\"\n"
		s.host = &Running{Status: gateway.Status{Version: up, Sandbox: gateway.SandboxStatus{Enabled: true, Detail: "no engine"}}, Plugins: []gateway.PluginStatus{
			{Name: "tele", State: string(plugin.Ready), Containment: measures},
		}}
		r := s.look()
		if got := codes(r); !slices.Equal(got, []Code{EngineSilent, PluginLoose}) {
			t.Fatalf("%s: found %v", system, got)
		}
		if engine, loose := r.Findings[0], r.Findings[1]; !strings.Contains(loose.What, want) || strings.Contains(loose.Mend, "virtual machine") != (system == "darwin") ||
			(engine.Command == "open -a Docker") != (system == "darwin") {
			t.Errorf("%s: %+v", system, r.Findings)
		}
	}
}

// TestWeakerSystem checks that what the system lacks is said, and is no finding.
func TestWeakerSystem(t *testing.T) {
	r := Report{Weaker: []string{"plugins are not restricted"}}
	lines := r.Lines(func(_, text string) string { return text })
	if want := []string{"on this system: plugins are not restricted", "nothing is wrong or weak"}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

func TestStoreOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	s := sound(t)
	s.write("flynn.toml", strings.Replace(s.text, "PUBLIC\n", "", 1))
	subject := Subject{Path: s.path("flynn.toml"), Getenv: func(key string) string { return s.env[key] }, Log: slog.New(slog.DiscardHandler)}
	if _, err := Run(t.Context(), subject); err != nil {
		t.Fatal(err)
	}
	must(t, os.Chown(s.path("data"), 65534, 65534))
	if r, err := Run(t.Context(), subject); err == nil || !strings.Contains(err.Error(), "sudo -u '#65534' flynn doctor") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCommandsAreForAShell(t *testing.T) {
	for path, want := range map[string]string{"/a/b-1.toml": "/a/b-1.toml", "/my data": "'/my data'", "/it's; rm": `'/it'\''s; rm'`, "$HOME": "'$HOME'"} {
		if got := config.ShellWord(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	f := Finding{What: "a\x1b[31m\nb", Command: "x\r\x1b[2Jy"}
	if text := strings.Join(f.lines("  wrong"), "\n"); strings.ContainsAny(text, "\x1b\r") {
		t.Errorf("it moves the cursor: %q", text)
	}
}
