package sandboxed

import (
	"os/exec"
	"testing"
)

func TestScriptKeepsWordsAsTheyAre(t *testing.T) {
	c := Command{Command: "/bin/echo", Args: []string{"a b", "it's", "$HOME", "`id`", "\n", ""}}
	out, err := exec.Command("sh", "-c", script(c)).Output()
	if err != nil || string(out) != "a b it's $HOME `id` \n \n" {
		t.Errorf("%s: %q, %v", script(c), out, err)
	}
}
