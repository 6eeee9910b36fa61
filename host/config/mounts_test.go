package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mountable makes a folder with what the cases below mount, and returns it.
func mountable(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"root/data/in", "root/other", "else", "secrets", "root/store"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "root", "other", "token"), strings.Repeat("t", 32), 0o600)
	if err := os.Symlink(filepath.Join(dir, "else"), filepath.Join(dir, "root", "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMounts(t *testing.T) {
	for name, c := range map[string]struct{ sandbox, rest, want string }{
		"allowed":             {sandbox: `mounts = [{ source = "root/data", target = "/data" }, { source = "root/other", target = "/o", read_only = false }]`},
		"the same, inherited": {sandbox: `mounts = [{ source = "root/data", target = "/data" }]`, rest: "[sandboxes.x]\nimage = \"i\""},
		"no root":             {sandbox: `mounts = [{ source = "else", target = "/data" }]`, want: "7: sandbox.mounts[0].source: DIR/else, which is not below a folder"},
		"a link":              {sandbox: `mounts = [{ source = "root/link", target = "/data" }]`, want: "leads to DIR/else"},
		"missing":             {sandbox: `mounts = [{ source = "root/none", target = "/data" }]`, want: "no such file or directory"},
		"options":             {sandbox: `mounts = [{ source = "root/data:/data:rw", target = "/data" }]`, want: "(write source, target and read_only as separate keys)"},
		"no source":           {sandbox: `mounts = [{ target = "/data" }]`, want: "sandbox.mounts[0].source: missing"},
		"no target":           {sandbox: `mounts = [{ source = "root/data" }]`, want: "sandbox.mounts[0].target: missing"},
		"the configuration":   {sandbox: `mounts = [{ source = ".", target = "/data" }]`, want: "which contains DIR/flynn.toml"},
		"secrets":             {sandbox: `mounts = [{ source = "secrets", target = "/data" }]`, want: "is or lies in DIR/secrets"},
		"the store":           {sandbox: `mounts = [{ source = "root/store", target = "/data" }]`, rest: "[store]\ndir = \"root/store\"", want: "is or lies in DIR/root/store"},
		"a credential":        {sandbox: `mounts = [{ source = "root/other", target = "/data" }]`, rest: "[sandboxes.x]\nnetwork = \"allowlist\"\nallowlist = [\"a.example:443\"]\ncredentials = [{ host = \"a.example\", value_file = \"root/other/token\" }]", want: "which contains DIR/root/other/token"},
		"a bridge's secret":   {sandbox: `mounts = [{ source = "root/other/token", target = "/data" }]` + "\n" + `bridges = [{ name = "b", sandbox = "x", program = "/bin/b", secrets_env = { T = { file = "root/other/token" } }, rules = [{ args = [] }] }]`, rest: "[sandboxes.x]", want: "is or lies in DIR/root/other/token"},
		"a client's token":    {sandbox: `mounts = [{ source = "root/other", target = "/data" }]`, rest: "[clients.c]\nagents = [\"main\"]\ntoken_file = \"root/other/token\"", want: "which contains DIR/root/other/token"},
		"a channel's token":   {sandbox: `mounts = [{ source = "root/other", target = "/data" }]`, rest: "[channels.c]\nplugin = \"telegram\"\ntoken_file = \"root/other/token\"", want: "which contains DIR/root/other/token"},
		"a tool's bearer":     {sandbox: `mounts = [{ source = "root/other", target = "/data" }]`, rest: "[tools.t]\nplugin = \"mcp\"\nbearer_file = \"root/other/token\"", want: "which contains DIR/root/other/token"},
		"inside a writable":   {sandbox: `mounts = [{ source = "root/data", target = "/a", read_only = false }, { source = "root/data/in", target = "/b" }]`, want: "sandbox.mounts[1].source: DIR/root/data/in lies in DIR/root/data, which a sandbox may write to"},
		"inside another's":    {sandbox: `mounts = [{ source = "root/data/in", target = "/b" }]`, rest: "[sandboxes.x]\nmounts = [{ source = \"root/data\", target = \"/a\", read_only = false }]", want: "which a sandbox may write to"},
		"target":              {sandbox: `tmpfs = [{ target = "/proc/x" }]`, want: `sandbox.tmpfs[0].target: target "/proc/x" overlaps /proc`},
		"targets":             {sandbox: `tmpfs = [{ target = "/x" }]` + "\n" + `volumes = [{ name = "v", target = "/x/y" }]`, want: "overlap"},
		"volume's name":       {sandbox: `volumes = [{ name = "../v", target = "/x" }]`, want: `sandbox.volumes[0].name: bad name "../v"`},
		"volume's scope":      {sandbox: `volumes = [{ name = "v", target = "/x", scope = "all" }]`, want: `no such value "all"`},
		"roots elsewhere":     {rest: "[sandboxes.x]\nmount_roots = [\"/srv\"]", want: "sandboxes.x.mount_roots: all sandboxes share one list"},
		"workspace elsewhere": {sandbox: `tmpfs = [{ target = "/x" }]`, rest: "[sandboxes.x]\nworkspace_dir = \"/x/y\"", want: "hides the workspace"},
		"start":               {sandbox: `start_command = ["", "x"]`, want: "sandbox.start_command[0]: the program has no name"},
		"no service":          {sandbox: `compose = "stack.yaml"`, want: "sandbox.service: missing"},
		"no compose file":     {sandbox: `service = "app"`, want: "sandbox.compose: missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := mountable(t)
			src := "[agent_configs.main]\nsystem_prompt = \"x\"\n[routing]\ndefault_agent = \"main\"\n[sandbox]\nmount_roots = [\"root\", \".\"]\n" + c.sandbox + "\n" + c.rest + "\n"
			if strings.Contains(c.want, "not below a folder") || strings.Contains(c.want, "leads to") {
				src = strings.Replace(src, `, "."`, "", 1)
			}
			if !strings.Contains(c.rest, "[store]") {
				src += "[store]\ndir = \"" + t.TempDir() + "\"\n"
			}
			cfg, err := Load(write(t, filepath.Join(dir, "flynn.toml"), src, 0o600), environ("HOME", "/nowhere"))
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(c.want, "DIR", dir)) {
					t.Fatalf("got %v\nfrom\n%s", err, src)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if m := cfg.Sandbox.Mounts; !m[0].ReadOnly || m[0].Source != filepath.Join(dir, "root", "data") {
				t.Errorf("got %+v", m)
			}
		})
	}
}

func TestCompose(t *testing.T) {
	const good = "services:\n  app:\n    image: x\n  db:\n    image: y\n"
	for name, c := range map[string]struct{ file, sandbox, rest, want string }{
		"read":           {file: good, sandbox: "compose = \"stack.yaml\"\nservice = \"db\""},
		"inherited":      {file: good, sandbox: "compose = \"stack.yaml\"\nservice = \"db\"", rest: "[sandboxes.x]\nservice = \"app\""},
		"missing":        {sandbox: "compose = \"none.yaml\"\nservice = \"db\"", want: "flynn.toml:7: sandbox.compose: no such file or directory"},
		"no service":     {file: good, sandbox: "compose = \"stack.yaml\"\nservice = \"dp\"", want: "8: sandbox.service: no service \"dp\""},
		"wrong":          {file: good + "    ports: [1]\n", sandbox: "compose = \"stack.yaml\"\nservice = \"db\"", want: "DIR/stack.yaml:6: services.db.ports: it is not supported"},
		"forbidden bind": {file: good + "    volumes: [\"./else:/x\"]\n", sandbox: "compose = \"stack.yaml\"\nservice = \"db\"", want: "DIR/stack.yaml:6: services.db.volumes: DIR/else, which is not below a folder"},
		"inside a writable": {file: good + "    volumes: [\"./root/data/in:/x:ro\", \"./root/data:/y\"]\n", sandbox: "compose = \"stack.yaml\"\nservice = \"db\"",
			want: "services.db.volumes: DIR/root/data/in lies in DIR/root/data, which a sandbox may write to"},
		"allowed bind": {file: good + "    volumes: [\"./root/data:/x\"]\n", sandbox: "compose = \"stack.yaml\"\nservice = \"db\""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := mountable(t)
			write(t, filepath.Join(dir, "stack.yaml"), c.file, 0o600)
			src := "[agent_configs.main]\nsystem_prompt = \"x\"\n[routing]\ndefault_agent = \"main\"\n[sandbox]\nmount_roots = [\"root\"]\n" + c.sandbox + "\n" + c.rest +
				"\n[store]\ndir = \"" + t.TempDir() + "\"\n"
			cfg, err := Load(write(t, filepath.Join(dir, "flynn.toml"), src, 0o600), environ("HOME", "/nowhere"))
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(c.want, "DIR", dir)) {
					t.Fatalf("got %v\nfrom\n%s", err, src)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p := cfg.Sandbox.Project; p == nil || len(p.Services) != 2 {
				t.Errorf("got %+v", p)
			}
			if x, ok := cfg.Sandboxes["x"]; ok && (x.Project == nil || x.Service != "app") {
				t.Errorf("inherited: %+v", x)
			}
		})
	}
}

// The workspace hides what the image has at its place, and commands own it: config check says where it may not lie.
func TestWorkspacePlaces(t *testing.T) {
	for _, c := range []struct{ dir, want string }{
		{"/my ws", ""},
		{"/работа", ""},
		{"/deep/er/ws", ""},
		{"/home/u", ""},
		{`/a\\b`, ""},
		{"/etc", `"/etc" hides /etc of the image, which its programs need (choose a separate folder)`},
		{"/bin", `"/bin" hides /bin of the image`},
		{"/usr", `"/usr" hides /usr/bin of the image`},
		{"/run", `"/run" hides /run of the image`},
		{"/proc", `"/proc" overlaps /proc, which the container needs`},
		{"/dev/x", `"/dev/x" overlaps /dev`},
		{"/sys", `"/sys" overlaps /sys`},
		{"/workspace/", `"/workspace/" is not a clean path (write "/workspace")`},
		{"/a/../b", `(write "/b")`},
		{"/a:b", `"/a:b" contains a colon`},
		{`/a\nb`, "contains a colon or another unsuitable character"},
		{"/.flynn/x", `"/.flynn/x" is reserved by Flynn`},
		{"ws", `"ws" is not a folder inside the container`},
		{"/", `"/" is not a folder inside the container`},
	} {
		for _, table := range []string{"[sandbox]\nimage = \"i\"\nworkspace_dir = \"DIR\"\n", "[sandbox]\nimage = \"i\"\n[sandboxes.x]\nworkspace_dir = \"DIR\"\n"} {
			text := strings.Replace(table, "DIR", c.dir, 1) + "[agent_configs.main]\nsystem_prompt = \"x\"\n[routing]\ndefault_agent = \"main\"\n"
			_, err := Load(write(t, filepath.Join(t.TempDir(), "flynn.toml"), text, 0o600), environ("HOME", "/nowhere"))
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s: %v", c.dir, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), "workspace_dir: ") || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%s: %v, want %s", c.dir, err, c.want)
			}
		}
	}
}

// A bridge to a program of this machine is written out, and its rules leave nothing open.
func TestHostBridges(t *testing.T) {
	for name, c := range map[string]struct{ bridge, want string }{
		"allowed":       {`host = true, program = "/usr/bin/gh", rules = [{ args = [{ pattern = "pr" }] }]`, ""},
		"with files":    {`host = true, program = "/usr/bin/gh", workspace = "ro", rules = [{ args = [{ path = true }] }]`, ""},
		"by default":    {`program = "/usr/bin/gh", rules = [{ args = [{ pattern = "pr" }] }]`, "sandbox.bridges[0].sandbox: missing"},
		"both":          {`host = true, sandbox = "x", program = "/usr/bin/gh", rules = [{ args = [{ pattern = "pr" }] }]`, "bridges[0].host: it runs on this machine and in a sandbox"},
		"writable":      {`host = true, program = "/usr/bin/gh", workspace = "rw", rules = [{ args = [{ path = true }] }]`, "bridges[0].workspace: a program of this machine writes to no workspace"},
		"anything":      {`host = true, program = "/usr/bin/gh", rules = [{ args = [{ rest = true }] }]`, "bridges[0].rules: an argument without a pattern may be anything"},
		"no rules":      {`host = true, program = "/usr/bin/gh"`, "bridges[0].rules: missing"},
		"a bare name":   {`host = true, program = "gh", rules = [{ args = [{ pattern = "pr" }] }]`, `bridges[0].program: "gh"`},
		"in the store":  {`host = true, program = "/state/workspaces/x", rules = [{ args = [{ pattern = "pr" }] }]`, "bridges[0].program: /state/workspaces/x lies in the store"},
		"secret, files": {`host = true, program = "/usr/bin/gh", workspace = "ro", secrets_env = { T = { env = "HOME" } }, rules = [{ args = [{ path = true }] }]`, "must not see the workspace"},
	} {
		text := "[sandbox]\nimage = \"i\"\nbridges = [{ name = \"gh\", " + c.bridge + " }]\n[sandboxes.x]\n[store]\ndir = \"/state\"\n" +
			"[agent_configs.main]\nsystem_prompt = \"x\"\n[routing]\ndefault_agent = \"main\"\n"
		_, err := Load(write(t, filepath.Join(t.TempDir(), "flynn.toml"), text, 0o600), environ("HOME", "/nowhere"))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
