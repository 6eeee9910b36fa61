package compose

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const whole = `
version: "3"
name: stack
x-common: &common
  mem_limit: 64m
  environment: { GREETING: "${HELLO:-hi there}", PRICE: "$$5" }
services:
  app:
    image: flynn/app
    depends_on:
      db: { condition: service_healthy }
      cache: { condition: service_started }
    command: serve "a b" c\ d 'e $$f'
    volumes:
      - files:/files:ro
      - { type: bind, source: ./conf, target: /conf, read_only: true }
      - { type: tmpfs, target: /scratch, tmpfs: { size: 1m } }
  db:
    <<: *common
    image: "postgres:${VERSION:-16}"
    entrypoint: ["db", "-v"]
    user: "70:70"
    working_dir: /var/lib
    healthcheck:
      test: ["CMD", "pg_isready"]
      interval: 1s
      timeout: 500ms
      retries: 7
      start_period: 1m30s
    volumes: ["files:/var/lib/data"]
    tmpfs: ["/run:size=2m"]
    read_only: true
    init: true
    cpus: "0.5"
    pids_limit: 20
    expose: [5432]
  cache:
    image: redis
    environment: [A=1, "B="]
    healthcheck: { disable: true }
    tmpfs: /run
volumes:
  files:
`

func TestParse(t *testing.T) {
	p, err := Parse("/srv/stack/compose.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := &Project{File: "/srv/stack/compose.yaml", Services: []Service{
		{
			Name: "db", Line: 18, Image: "postgres:16", Entrypoint: []string{"db", "-v"}, User: "70:70", WorkingDir: "/var/lib",
			Environment: []string{"GREETING=hi there", "PRICE=$5"}, MemoryBytes: 64 << 20, CPUs: 0.5, PidsLimit: 20, ReadOnly: true, Init: true,
			Health: &Health{
				Test: []string{"CMD", "pg_isready"}, Interval: time.Second, Timeout: 500 * time.Millisecond, Retries: 7, StartPeriod: 90 * time.Second,
			},
			Volumes: []Volume{{Name: "files", Target: "/var/lib/data"}}, Tmpfs: []Tmpfs{{"/run", 2 << 20}},
		},
		{
			Name: "cache", Line: 37, Image: "redis", Environment: []string{"A=1", "B="}, Health: &Health{Test: []string{"NONE"}},
			Tmpfs: []Tmpfs{{"/run", 64 << 20}},
		},
		{
			Name: "app", Line: 8, Image: "flynn/app", Command: []string{"serve", "a b", "c d", "e $f"},
			DependsOn: []Dependency{{Service: "db", Healthy: true}, {Service: "cache"}},
			Binds:     []Bind{{Source: "/srv/stack/conf", Target: "/conf", ReadOnly: true, Line: 16}},
			Volumes:   []Volume{{Name: "files", Target: "/files", ReadOnly: true}}, Tmpfs: []Tmpfs{{"/scratch", 1 << 20}},
		},
	}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	if _, ok := p.Service("db"); !ok || !slices.Equal(p.Names(), []string{"db", "cache", "app"}) {
		t.Error(p.Names())
	}
}

func TestRefusals(t *testing.T) {
	service := func(lines string) string {
		return "services:\n  app:\n    image: x\n    " + strings.ReplaceAll(lines, "\n", "\n    ") + "\n"
	}
	for name, c := range map[string]struct{ src, want string }{
		"nothing":             {"", "f.yaml:1: the file is empty"},
		"no services":         {"services: {}", "services: there is none"},
		"no YAML":             {"a: [", "it is not YAML"},
		"two documents":       {"services: {a: {image: x}}\n---\nservices: {}", "a second document"},
		"a list":              {"- a", "it is not a mapping"},
		"unknown":             {"services: {a: {image: x}}\nfoo: 1", "f.yaml:2: foo: it is not supported: remove it"},
		"networks":            {"services: {a: {image: x}}\nnetworks: {n: {}}", "f.yaml:2: networks: it is not supported: remove it: the services of a session reach"},
		"no image":            {"services:\n  a: {command: x}", "f.yaml:2: services.a.image: it is missing"},
		"service's name":      {"services: {a.b: {image: x}}", "services.a.b: bad name"},
		"localhost":           {"services: {localhost: {image: x}}", "services.localhost: bad name"},
		"twice":               {"services:\n  a: {image: x}\n  a: {image: y}", "f.yaml:3: services.a: the key stands twice"},
		"privileged":          {service("privileged: true"), "f.yaml:4: services.app.privileged: it is not supported: remove it: no container of a sandbox has privileges"},
		"capabilities":        {service("cap_add: [SYS_ADMIN]"), "services.app.cap_add: it is not supported"},
		"devices":             {service("devices: [/dev/sda]"), "services.app.devices: it is not supported"},
		"network mode":        {service("network_mode: host"), "services.app.network_mode: it is not supported"},
		"pid":                 {service("pid: host"), "services.app.pid: it is not supported: remove it; supported are command, "},
		"ipc":                 {service("ipc: host"), "services.app.ipc: it is not supported"},
		"security":            {service("security_opt: [seccomp:unconfined]"), "services.app.security_opt: it is not supported"},
		"ports":               {service("ports: ['80:80']"), "services.app.ports: it is not supported: remove it: commands reach"},
		"secrets":             {service("secrets: [x]"), "services.app.secrets: it is not supported"},
		"extends":             {service("extends: {service: y}"), "services.app.extends: it is not supported"},
		"build":               {"services:\n  a:\n    build: .", "services.a.build: it is not supported: build the image first"},
		"env_file":            {service("env_file: .env"), "services.app.env_file: it is not supported"},
		"runtime":             {service("runtime: runc"), "services.app.runtime: it is not supported"},
		"sysctls":             {service("sysctls: {a: 1}"), "services.app.sysctls: it is not supported"},
		"by a merge":          {"x-a: &a {privileged: true}\nservices:\n  app: {image: x, <<: *a}", "services.app.privileged: it is not supported"},
		"the host's variable": {service("command: $HOME"), "f.yaml:4: services.app.command: variable HOME has no value"},
		"in braces":           {service("command: ${HOME}"), "a dollar begins no variable with a default"},
		"required variable":   {service("command: ${A:?no}"), "a dollar begins no variable with a default"},
		"environment list":    {service("environment: [HOME]"), `services.app.environment[0]: "HOME" has no value`},
		"environment mapping": {service("environment: {HOME: }"), "services.app.environment.HOME: it has no value"},
		"environment name":    {service("environment: {'a=b': c}"), `"a=b" is not the name of a variable`},
		"command's quote":     {service("command: \"a 'b\""), "a quote is not closed"},
		"command's mapping":   {service("command: {a: b}"), "services.app.command: it is not a list"},
		"user":                {service("user: 'a b'"), `"a b" is not a user`},
		"working_dir":         {service("working_dir: a"), `"a" is not a path inside the container`},
		"anonymous volume":    {service("volumes: [/data]"), `"/data" is not a volume`},
		"volume's options":    {service("volumes: ['v:/data:z']"), `"v:/data:z" is not a volume`},
		"undeclared volume":   {service("volumes: ['v:/data']"), `services.app.volumes[0]: no volume "v"`},
		"volume's driver":     {"services: {a: {image: x}}\nvolumes: {v: {driver: nfs}}", "volumes.v.driver: it is not supported"},
		"external volume":     {"services: {a: {image: x}}\nvolumes: {v: {external: true}}", "volumes.v.external: it is not supported"},
		"propagation":         {service("volumes: [{type: bind, source: /a, target: /b, bind: {propagation: shared}}]"), "services.app.volumes[0].bind: it is not supported"},
		"type":                {service("volumes: [{type: npipe, source: a, target: /b}]"), `no such type "npipe"`},
		"no target":           {service("volumes: [{type: bind, source: /a}]"), "it has no target"},
		"tmpfs options":       {service("tmpfs: ['/run:exec']"), "options that are not supported"},
		"memory":              {service("mem_limit: lots"), `"lots" is not a size`},
		"no memory":           {service("mem_limit: 1k"), `"1k" is not a size of at least`},
		"cores":               {service("cpus: NaN"), `"NaN" is not a number of cores`},
		"processes":           {service("pids_limit: -1"), `"-1" is not a number from 1`},
		"yes":                 {service("read_only: y"), `"y" is not true or false`},
		"health":              {service("healthcheck: {test: [pg_isready]}"), "services.app.healthcheck.test: it is not a test"},
		"health's time":       {service("healthcheck: {test: x, interval: soon}"), `"soon" is not a duration`},
		"health's key":        {service("healthcheck: {test: x, start_interval: 1s}"), "start_interval: it is not supported"},
		"dependency":          {service("depends_on: [db]"), `no service "db"`},
		"itself":              {service("depends_on: [app]"), `services "app" and "app" wait for each other`},
		"condition":           {"services:\n  a: {image: x}\n  b: {image: x, depends_on: {a: {condition: service_ready}}}", "no such condition"},
		"not required":        {"services:\n  a: {image: x}\n  b: {image: x, depends_on: {a: {condition: service_started, required: false}}}", "b.depends_on.a.required: it is not supported"},
		"variable twice":      {service("environment: [A=1, B=2, A=3]"), "services.app.environment[2]: A is set twice"},
		"tag":                 {service("command: !reset [x]"), `f.yaml:4: tag "!reset" is not supported`},
		"profiles":            {service("profiles: [debug]"), "services.app.profiles: it is not supported: remove the key, or the service"},
		"healthy, disabled":   {"services:\n  a: {image: x, healthcheck: {disable: true}}\n  b: {image: x, depends_on: {a: {condition: service_healthy}}}", "healthcheck disabled"},
		"a circle":            {"services:\n  a: {image: x, depends_on: [b]}\n  b: {image: x, depends_on: [c]}\n  c: {image: x, depends_on: [a]}", "wait for each other"},
		"binary":              {service("user: !!binary aGk="), "it is not text"},
		"zero byte":           {service(`command: ["a\0b"]`), "zero byte"},
		"too many":            {"services:\n" + strings.Repeat("  aNUMBER: {image: x}\n", 17), "more than 16 services"},
	} {
		t.Run(name, func(t *testing.T) {
			src := c.src
			for n := 'a'; strings.Contains(src, "NUMBER"); n++ {
				src = strings.Replace(src, "NUMBER", string(n), 1)
			}
			_, err := Parse("f.yaml", []byte(src))
			var wrong Errors
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nfrom\n%s", err, src)
			}
		})
	}
}

// A file whose aliases unfold to billions of keys costs neither time nor memory.
func TestAliasesAreBounded(t *testing.T) {
	src := "x-a: &a {k: v}\n"
	for i, names := 0, "abcdefghij"; i+1 < len(names); i++ {
		src += "x-" + names[i+1:i+2] + ": &" + names[i+1:i+2] + "\n  <<: [" + strings.Repeat("*"+names[i:i+1]+", ", 30) + "]\n"
	}
	began := time.Now()
	if _, err := Parse("f.yaml", []byte(src+"services:\n  app:\n    image: x\n    <<: *h\n")); err == nil {
		t.Error("it is taken")
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
}

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		"":              {},
		"  a  b\tc\n":   {"a", "b", "c"},
		`a"b c"d`:       {"ab cd"},
		`'' ""`:         {"", ""},
		`"a\"b\x" '\a'`: {`a"b\x`, `\a`},
		`a\ b \' \\`:    {"a b", "'", `\`},
		`a;b|c`:         {"a;b|c"},
	} {
		if got, err := split(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v", line, got, err)
		}
	}
	for _, line := range []string{`"a`, `'a`, `a\`, `"a\`} {
		if got, err := split(line); err == nil {
			t.Errorf("%q: got %q", line, got)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "compose.yaml")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := Load(path); err != nil || p.Services[2].Binds[0].Source != filepath.Join(dir, "conf") {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, c := range []struct{ beside, want string }{
		{"# VERSION=1\nOTHER=2\nHELLO\n", ""},
		{"OTHER=1\nexport VERSION = 17\n", "compose.yaml:20: services.db.image: variable VERSION is set in .env, which is not read: write its value here"},
	} {
		if err := os.WriteFile(filepath.Join(dir, ".env"), []byte(c.beside), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("beside %q: %v", c.beside, err)
		}
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, ".env")), os.Mkdir(filepath.Join(dir, ".env"), 0o700)); err != nil { // as of Python
		t.Fatal(err)
	}
	if _, err := Load(path); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("#", maxFile+1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("large: %v", err)
	}
}

// FuzzParse: a file gives a project in which everything is as the package says, or errors with a line each.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("services: {a: &a {image: x, depends_on: [b]}, b: {<<: *a, depends_on: {a: {condition: service_healthy}}}}")
	f.Add("services:\n  a: {image: \"${A:-$$}\", volumes: [{type: bind, source: ../.., target: /x}]}\nvolumes: {v: }")
	f.Add("a: &a [*a]\nservices: *a")
	f.Add("? {a: b}\n: c\n!!map {}")
	f.Fuzz(func(t *testing.T, src string) {
		p, err := Parse("/dir/f.yaml", []byte(src))
		if err != nil {
			var wrong Errors
			if !errors.As(err, &wrong) || len(wrong) == 0 {
				t.Fatalf("%T: %v", err, err)
			}
			for _, e := range wrong {
				if e.Line < 0 || e.Line > strings.Count(src, "\n")+strings.Count(src, "\r")+strings.Count(src, "\u2028")+strings.Count(src, "\u2029")+strings.Count(src, "\u0085")+2 || e.Problem == "" {
					t.Errorf("%+v of\n%s", e, src)
				}
			}
			return
		}
		placed := map[string]bool{}
		for _, s := range p.Services {
			for _, d := range s.DependsOn {
				if !placed[d.Service] {
					t.Errorf("%s starts before %s", s.Name, d.Service)
				}
			}
			placed[s.Name] = true
			if s.Image == "" || !names().MatchString(s.Name) || s.CPUs < 0 || s.MemoryBytes < 0 || s.PidsLimit < 0 {
				t.Errorf("%+v", s)
			}
			for _, b := range s.Binds {
				if !filepath.IsAbs(b.Source) {
					t.Errorf("source %q", b.Source)
				}
			}
		}
	})
}
