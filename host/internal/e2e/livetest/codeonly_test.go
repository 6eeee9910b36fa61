package livetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/sandbox/sandboxtest"
)

// The example code-only does what its README says.
func TestCodeOnlyExample(t *testing.T) {
	engine := sandboxtest.Engine(t)
	text, err := os.ReadFile(filepath.Join(root, "examples/code-only/flynn.toml"))
	if err != nil {
		t.Fatal(err)
	}
	config := string(text)
	for _, change := range [][2]string{
		{`"../../.cache/code-only"`, `"%DIR%/state"`},
		{"warm_pool = 1", "warm_pool = 1\nimage = \"" + engine.Python(t) + "\"\njavascript_image = \"" + engine.Node(t) + "\"\n" + patient},
	} {
		if !strings.Contains(config, change[0]) {
			t.Fatalf("the example has no %s any more", change[0])
		}
		config = strings.Replace(config, change[0], change[1], 1)
	}
	s := newSite(t, config+"\n[gateway]\nlisten = \"127.0.0.1:%PORT%\"\n")
	s.start()
	readme, err := os.ReadFile(filepath.Join(root, "examples/code-only/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	tries := func(id, says, want string) {
		t.Helper()
		if !strings.Contains(string(readme), "`"+says+"`") {
			t.Errorf("the README does not have %s", says)
		}
		if got := s.says(id, says).Text; !strings.Contains(got, want) {
			t.Errorf("%s: the answer is %q, want %q in it", says, got, want)
		}
	}
	for id, c := range map[string]struct{ says, want string }{
		"sum":     {`!py print(2+2)`, "4\n[exit code 0]"},
		"js":      {`!js console.log([3,1,2].sort())`, "[ 1, 2, 3 ]\n[exit code 0]"},
		"network": {`!py import urllib.request; urllib.request.urlopen("http://example.com")`, "URLError"},
		"shadow":  {`!py open("/etc/shadow").read()`, "[exit code 1]"},
		"helper":  {`!py import flynn; print(flynn.call("memory.write", key="apples", text="42"))`, "[exit code 0]"},
		"refused": {`!py import flynn; flynn.call("shell.exec", command="ls")`, `tool "shell.exec" is not offered`},
		"file":    {`!py open("out/report.txt", "w").write("hello")`, "out/report.txt (text/plain, 5 bytes) goes with your answer"},
	} {
		tries(id, c.says, c.want)
	}
	s.hurries(2)
	tries("forever", `!py while True: pass`, "timed out")
}
