package mounts

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// layout makes folders, files (by a name with a dot), links ("a -> b") and returns the root, without links in its path.
func layout(t *testing.T, names ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		link, target, isLink := strings.Cut(name, " -> ")
		path := filepath.Join(root, link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		switch {
		case isLink:
			err = os.Symlink(strings.ReplaceAll(target, "ROOT", root), path)
		case strings.Contains(filepath.Base(name), "."):
			err = os.WriteFile(path, nil, 0o644)
		default:
			err = os.MkdirAll(path, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func listen(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

func TestCheckSource(t *testing.T) {
	root := layout(t, "data/in", "data/file.txt", "data/sub/deep", "other/in", "store/keys", "home/.ssh", "home/work", "home/.cache/go",
		"data/to-other -> ROOT/other", "data/to-in -> in", "data/to-etc -> /etc", "data/to-store -> ROOT/store/keys", "data/loop -> loop",
		"data/engine/run", "data/served", "alias -> data", "up -> ROOT", "data/parents/a/b")
	listen(t, root+"/data/engine/run/docker.sock")
	listen(t, root+"/data/served/s.sock")
	if err := unix.Mkfifo(root+"/data/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	rules := Rules{
		Roots:  []string{root + "/data", root + "/home"},
		Secret: []string{root + "/store", root + "/data/engine/run/docker.sock", root + "/data/parents/a/b"},
		Home:   root + "/home",
	}
	for name, c := range map[string]struct{ source, want, err string }{
		"below a root":              {source: "data/in", want: "data/in"},
		"a root itself":             {source: "alias/sub/deep", want: "data/sub/deep"},
		"a file":                    {source: "data/file.txt", want: "data/file.txt"},
		"a link that stays":         {source: "data/to-in", want: "data/in"},
		"dots that stay":            {source: "data/sub/../in", want: "data/in"},
		"a folder of a home":        {source: "home/work", want: "home/work"},
		"below no root":             {source: "other/in", err: "not below a folder of mount_roots"},
		"dots that leave":           {source: "data/../other/in", err: "not below a folder of mount_roots"},
		"a parent of a root":        {source: "", err: "not below a folder of mount_roots"},
		"a link that leaves":        {source: "data/to-other", err: "leads to"},
		"a link to the system":      {source: "data/to-etc", err: "leads to /etc, which is not below"},
		"a link to the store":       {source: "data/to-store", err: "not below a folder"},
		"a link above the root":     {source: "up/other", err: "not below a folder"},
		"missing":                   {source: "data/none", err: "no such file"},
		"a loop":                    {source: "data/loop", err: "too many l"},
		"the engine's socket":       {source: "data/engine/run/docker.sock", err: "neither a folder nor a regular file"},
		"its folder":                {source: "data/engine/run", err: "contains " + root + "/data/engine/run/docker.sock"},
		"the folder of that":        {source: "data/engine", err: "contains " + root + "/data/engine/run/docker.sock"},
		"a root with the socket":    {source: "data", err: "contains "},
		"another server's socket":   {source: "data/served/s.sock", err: "neither"},
		"a folder with a socket":    {source: "data/served", err: "contains the socket s.sock"},
		"a pipe":                    {source: "data/pipe", err: "neither"},
		"a home":                    {source: "home", err: "hidden folders"},
		"a home's keys":             {source: "home/.ssh", err: "hidden folder of"},
		"below a hidden folder":     {source: "home/.cache/go", err: "hidden folder of"},
		"what contains a secret":    {source: "data/parents", err: "contains"},
		"what lies in a secret":     {source: "data/parents/a/b", err: "is or lies in"},
		"options behind a colon":    {source: "data/in:/in:rw", err: "separate keys"},
		"a line feed":               {source: "data/in\n", err: "unsuitable character"},
		"bytes that are no letters": {source: "data/\xff", err: "unsuitable character"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rules.Check(root + "/" + c.source)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %q, %v; want an error with %q", got, err, c.err)
				}
				return
			}
			if err != nil || got != root+"/"+c.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// These are never mounted, whatever the roots say.
func TestCheckSystem(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	rules := Rules{Roots: []string{"/"}, Home: home}
	for _, source := range []string{
		"/", "/proc", "/proc/self/root", "/sys", "/dev", "/dev/shm", "/run", "/var/run", "/etc", "/etc/ssl", "/boot", "/root", "/usr",
		"/usr/lib", "/bin", "/sbin", "/lib", "/var", "/var/lib", "/home", home,
	} {
		if _, err := os.Lstat(source); err != nil {
			continue
		}
		if got, err := rules.Check(source); err == nil {
			t.Errorf("%s is allowed, as %s", source, got)
		}
	}
}

func TestCheckWithoutRoots(t *testing.T) {
	if _, err := (Rules{}).Check(t.TempDir()); err == nil || !strings.Contains(err.Error(), "mount_roots") {
		t.Errorf("got %v", err)
	}
	if _, err := (Rules{Roots: []string{"/"}}).Check("data"); err == nil || !strings.Contains(err.Error(), "not an absolute path") {
		t.Errorf("got %v", err)
	}
}

func TestLooksOfHomes(t *testing.T) {
	r := Rules{}
	for path, bad := range map[string]bool{
		"/home": true, "/home/alice": true, "/home/alice/.ssh": true, "/home/alice/.config/x": true, "/home/alice/work": false,
		"/home/alice/work/.git": false, "/Users/bob/.docker": true, "/Users/bob/src": false, "/srv/home": false,
		"/var/lib/docker/volumes/x": true, "/var/lib": true, "/var/lib/app": false, "/etcetera": false,
	} {
		if place, why := r.secret(path); (place != "") != bad {
			t.Errorf("%s: %q, %q", path, place, why)
		}
	}
}

// A source that is swapped for a link after it was opened keeps its identity, and the next look finds the swap out.
func TestSwap(t *testing.T) {
	root := layout(t, "data/in", "other")
	rules := Rules{Roots: []string{root + "/data"}}
	held, err := rules.Open(root + "/data/in")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := os.Rename(root+"/data/in", root+"/data/was"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root+"/other", root+"/data/in"); err != nil {
		t.Fatal(err)
	}
	if _, err := rules.Check(root + "/data/in"); err == nil {
		t.Error("the link is taken")
	}
	if err := os.Remove(root + "/data/in"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root+"/data/in", 0o755); err != nil {
		t.Fatal(err)
	}
	again, err := rules.Open(root + "/data/in")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if held.ID() == again.ID() || held.ID() == (ID{}) {
		t.Errorf("two folders are %v and %v", held.ID(), again.ID())
	}
}

func TestCheckTargets(t *testing.T) {
	for name, c := range map[string]struct {
		targets []string
		index   int
		err     string
	}{
		"side by side":          {targets: []string{"/data", "/data2", "/etc/app.conf", "/opt/x", "/home/me/.cache"}},
		"root":                  {targets: []string{"/"}, err: "not a path inside"},
		"relative":              {targets: []string{"data"}, err: "not a path inside"},
		"empty":                 {targets: []string{""}, err: "not a path inside"},
		"dots":                  {targets: []string{"/data/.."}, err: "not a path inside"},
		"slash at the end":      {targets: []string{"/data/"}, err: "not a path inside"},
		"options":               {targets: []string{"/data:rw"}, err: "separate keys"},
		"zero byte":             {targets: []string{"/data\x00"}, err: "unsuitable character"},
		"proc":                  {targets: []string{"/ok", "/proc/sys"}, index: 1, err: "overlaps /proc"},
		"sys":                   {targets: []string{"/sys"}, err: "overlaps /sys"},
		"dev":                   {targets: []string{"/dev/sda"}, err: "overlaps /dev"},
		"tmp":                   {targets: []string{"/tmp/x"}, err: "overlaps /tmp"},
		"etc":                   {targets: []string{"/etc"}, err: "overlaps /etc/hosts"},
		"hosts":                 {targets: []string{"/etc/hosts"}, err: "overlaps /etc/hosts"},
		"beside programs":       {targets: []string{"/bin/tool", "/usr/local", "/usr/local/bin", "/lib/x", "/usr/share"}, index: 2, err: "overlap: "},
		"a folder of programs":  {targets: []string{"/bin"}, err: "hides /bin of the image"},
		"all of them":           {targets: []string{"/usr"}, err: "hides /usr/bin of the image"},
		"libraries":             {targets: []string{"/lib64"}, err: "hides /lib64 of the image"},
		"the workspace":         {targets: []string{"/work/space"}, err: "hides the workspace"},
		"a parent of it":        {targets: []string{"/work"}, err: "hides the workspace"},
		"a folder of it":        {targets: []string{"/work/space/in"}, err: "lies in the workspace"},
		"the supervisor":        {targets: []string{"/.flynn-sandboxd"}, err: "reserved by Flynn"},
		"the control socket":    {targets: []string{"/.flynn-control/s"}, err: "reserved by Flynn"},
		"the same twice":        {targets: []string{"/a", "/b", "/a"}, index: 2, err: "overlap: "},
		"one below another":     {targets: []string{"/a", "/a/b"}, index: 1, err: "overlap: "},
		"one above another":     {targets: []string{"/a/b", "/a"}, index: 1, err: "overlap: "},
		"much too long a place": {targets: []string{"/" + strings.Repeat("x", 2000)}, err: "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckTargets("/work/space", c.targets)
			if c.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var at *TargetError
			if !errors.As(err, &at) || at.Index != c.index || !strings.Contains(at.Problem, c.err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// FuzzCheck: what is allowed lies below the root, and is no secret, whatever links there are.
func FuzzCheck(f *testing.F) {
	for _, seed := range [][2]string{{"in", "x"}, {"../other", "/etc"}, {"link/../..", "../other"}, {"link", "/proc/self/root"}, {"in:/x", "."}, {"./in//", ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, name, link string) {
		root := layout(t, "data/in/deep", "data/secret/x", "other/in")
		if link != "" {
			_ = os.Symlink(link, root+"/data/link")
		}
		rules := Rules{Roots: []string{root + "/data"}, Secret: []string{root + "/data/secret"}}
		got, err := rules.Check(root + "/data/" + name)
		if err != nil {
			return
		}
		real, err := filepath.EvalSymlinks(got)
		if err != nil || real != got || !below(got, root+"/data") || below(got, root+"/data/secret") || got == root+"/data" {
			t.Errorf("%q with a link to %q gives %q (%q, %v)", name, link, got, real, err)
		}
	})
}

// FuzzTargets: whatever is allowed is clean, and nothing of it lies over another, the workspace or the kernel's places.
func FuzzTargets(f *testing.F) {
	f.Add("/work/space", "/data", "/proc")
	f.Add("/w", "/w/../x", "/x")
	f.Fuzz(func(t *testing.T, workspace, a, b string) {
		if CheckTargets(workspace, []string{a, b}) != nil {
			return
		}
		for _, pair := range [][2]string{{a, b}, {a, workspace}, {b, workspace}, {a, "/proc"}, {b, "/dev"}, {a, "/.flynn-control"}, {b, "/tmp"}} {
			if below(pair[0], pair[1]) || below(pair[1], pair[0]) {
				t.Errorf("%q and %q lie over each other", pair[0], pair[1])
			}
		}
		if filepath.Clean(a) != a || a[0] != '/' {
			t.Errorf("%q is allowed", a)
		}
	})
}
