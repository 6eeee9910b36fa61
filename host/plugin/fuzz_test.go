package plugin

import (
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/install/folder"
	channelkind "github.com/flynnhost/flynn/host/plugin/kind/channel"
)

const goodManifest = `manifest = 1
name = "telegram"
version = "1.4.0"
kinds = ["channel"]
protocols = [1]
critical = false
host = { min = "0.2.0" }
exec = { linux-amd64 = "bin/telegram", any = ["node", "main.mjs"] }
run = { tls = "auto", start_timeout = "10s", stop_timeout = "10s", memory = "64MiB", reload = false }
config = { schema = "config.schema.json", secrets = ["token"] }
channel = { edit = true, typing = true, exclusive = true, max_text = 4096 }
permissions = { network = ["api.telegram.org:443"], host = ["kv"], env = ["HTTPS_PROXY"], state = true }
`

func FuzzManifest(f *testing.F) {
	f.Add([]byte(goodManifest))
	f.Add([]byte(`exec = { any = ["../../bin/sh"] }`))
	f.Add([]byte("name = \"a/../b\"\nmanifest = 1"))
	f.Add([]byte("\xff\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseManifest(text)
		if err != nil {
			return
		}
		if strings.ContainsAny(m.Name+m.Version, "/\\\x00") || len(m.Name) < 2 || len(m.Name) > 40 {
			t.Errorf("accepted the name %q, version %q", m.Name, m.Version)
		}
		for _, c := range m.Exec {
			if file, ok := c.file(); ok && (strings.HasPrefix(file, "/") || strings.Contains(file, "..") && !folder.Inside(file)) {
				t.Errorf("accepted the program %q", file)
			}
		}
		if m.Run.StartTimeout <= 0 || m.Run.StopTimeout <= 0 || len(m.Kinds) == 0 || len(m.Exec) == 0 {
			t.Errorf("accepted %+v", m)
		}
	})
}

const goodLock = `lock = 1
[[plugin]]
name = "telegram"
version = "1.4.0"
platform = "linux-amd64"
source = "/src"
installed = 2026-01-02T03:04:05Z
[plugin.files]
"plugin.toml" = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
`

func FuzzLock(f *testing.F) {
	f.Add([]byte(goodLock))
	f.Add([]byte(strings.Replace(goodLock, `"plugin.toml"`, `"../plugin.toml"`, 1)))
	f.Add([]byte(strings.Replace(goodLock, `1.4.0`, `../../x`, 1)))
	f.Add([]byte("lock = 1\nlock = 2"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := parseLock(text)
		if err != nil {
			return
		}
		for _, p := range l.Releases {
			if !folder.Inside(p.dir()) || strings.Count(p.dir(), "/") != 2 {
				t.Errorf("accepted the folder %q", p.dir())
			}
			for file := range p.Files {
				if !folder.Inside(file) {
					t.Errorf("accepted the file %q", file)
				}
			}
		}
		again, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseLock(again); err != nil {
			t.Errorf("cannot read what was written: %v\n%s", err, again)
		}
	})
}

func FuzzLogLine(f *testing.F) {
	f.Add(`{"@level":"warn","@message":"hello","k":1}`)
	f.Add(`{"@message": 1, "@level": []}`)
	f.Add(`{"@level":"info","@message":"\u0000","x":{"@message":null}}`)
	f.Fuzz(func(t *testing.T, line string) {
		_, _, attrs, ok := parseRecord(line)
		if len(attrs) > maxLogAttrs || !ok && attrs != nil {
			t.Errorf("%d attributes, ok %t", len(attrs), ok)
		}
	})
}

func FuzzHandshake(f *testing.F) {
	f.Add("1|1|unix|/run/x/plugin1|grpc|", true)
	f.Add("1|1|unix|/run/x/../docker.sock|grpc|", false)
	f.Add("1|1|unix|/run/x/plugin1|grpc|"+strings.Repeat("A", 100), false)
	f.Add("1|1|tcp|10.0.0.1:22|grpc", false)
	f.Fuzz(func(t *testing.T, line string, tls bool) {
		r := &runnerProcess{socketDir: "/run/x", tls: tls}
		if r.checkHandshake(line) != nil {
			return
		}
		parts := strings.Split(line, "|")
		if parts[2] != "unix" || !strings.HasPrefix(parts[3], "/run/x/") || strings.Contains(strings.TrimPrefix(parts[3], "/run/x/"), "/") {
			t.Errorf("accepted the address of %q", line)
		}
		if certificate := len(parts) > 5 && parts[5] != ""; certificate != tls {
			t.Errorf("certificate %t with tls %t: %q", certificate, tls, line)
		}
	})
}

func TestManifestProblems(t *testing.T) {
	for name, c := range map[string]struct{ from, to, says string }{
		"unknown key":       {`critical = false`, `critcal = false`, "unknown key critcal"},
		"unknown in table":  {`tls = "auto"`, `tsl = "auto"`, "unknown key run.tsl"},
		"v in version":      {`"1.4.0"`, `"v1.4.0"`, `version "v1.4.0": must be an exact version`},
		"short version":     {`"1.4.0"`, `"1.4"`, `version "1.4": must be an exact version`},
		"path as name":      {`"telegram"`, `"../x"`, `name "../x"`},
		"other format":      {`manifest = 1`, `manifest = 2`, "manifest is 2, this host reads 1"},
		"other protocol":    {`protocols = [1]`, `protocols = [2]`, "this host speaks 1"},
		"no kind":           {`kinds = ["channel"]`, `kinds = []`, "kinds is empty"},
		"kind":              {`kinds = ["channel"]`, `kinds = ["toaster"]`, `kind "toaster"`},
		"tls":               {`tls = "auto"`, `tls = "off"`, `run.tls "off"`},
		"size":              {`"64MiB"`, `"64 megs"`, "is not a size"},
		"duration":          {`start_timeout = "10s"`, `start_timeout = "-1s"`, "negative"},
		"escaping program":  {`"bin/telegram"`, `"../bin/telegram"`, "is not a file of the plugin"},
		"absolute program":  {`"bin/telegram"`, `"/bin/sh"`, "is not a file of the plugin"},
		"loader variable":   {`env = ["HTTPS_PROXY"]`, `env = ["LD_PRELOAD"]`, "cannot be passed on"},
		"no such service":   {`host = ["kv"]`, `host = ["kv", "shell"]`, "permissions.host [\"kv\" \"shell\"]: must be some of"},
		"a service twice":   {`host = ["kv"]`, `host = ["kv", "kv"]`, "each once"},
		"not toml":          {`manifest = 1`, `manifest = `, "plugin.toml: toml: line 1"},
		"exec of no string": {`"bin/telegram"`, `[1]`, "must be a list of strings"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(goodManifest, c.from, c.to, 1)
			if text == goodManifest {
				t.Fatalf("%q is not in the manifest", c.from)
			}
			_, err := ParseManifest([]byte(text))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
		})
	}
}

func TestManifestNamesAllProblemsAtOnce(t *testing.T) {
	_, err := ParseManifest([]byte("manifest = 1\nbogus = 1"))
	for _, says := range []string{"unknown key bogus", "name ", "version ", "kinds ", "protocols ", "exec "} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is not in %v", says, err)
		}
	}
}

func TestManifestValues(t *testing.T) {
	m, err := ParseManifest([]byte(goodManifest))
	if err != nil {
		t.Fatal(err)
	}
	if m.Run.Memory != 64<<20 || time.Duration(m.Run.StopTimeout) != 10*time.Second || m.Exec["any"][1] != "main.mjs" {
		t.Errorf("got %+v", m)
	}
	c := channelkind.OptionsOf(m.Options).Capabilities(nil)
	if !c.Edit || !c.Exclusive || c.MaxTextRunes != 4096 || c.MinEditInterval != time.Second || c.React {
		t.Errorf("got %+v", c)
	}
}

func TestLockProblems(t *testing.T) {
	for name, c := range map[string]struct{ from, to string }{
		"path as version": {`"1.4.0"`, `"../../1.4.0"`},
		"path as name":    {`"telegram"`, `"../telegram"`},
		"path as system":  {`"linux-amd64"`, `"../linux"`},
		"escaping file":   {`"plugin.toml"`, `"../plugin.toml"`},
		"short digest":    {`e3b0c442`, ``},
		"unknown key":     {`source`, `sauce`},
		"other format":    {`lock = 1`, `lock = 3`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parseLock([]byte(strings.Replace(goodLock, c.from, c.to, 1))); err == nil {
				t.Error("it was accepted")
			}
		})
	}
	if _, err := parseLock([]byte(goodLock)); err != nil {
		t.Errorf("the good one: %v", err)
	}
	twice := goodLock + strings.TrimPrefix(goodLock, "lock = 1\n")
	if _, err := parseLock([]byte(twice)); err == nil {
		t.Error("a plugin that stands there twice was accepted")
	}
}
