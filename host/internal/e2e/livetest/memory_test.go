package livetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/model/modeltest"
)

const memoryConfig = `[gateway]
listen = "127.0.0.1:%PORT%"
[store]
dir = "%DIR%/store"
[routing]
default_agent = "main"
[agent_configs.main]
[models.default]
provider = "demo"
[models.fast]
provider = "openai"
model = "small"
base_url = "URL/v1"
api_key_file = "key"
[compaction]
keep_turns = 1
[memory]
extract = true
recall = true
`

// TestMemory lives through what a host remembers by itself: it takes a note of a turn, finds it after a kill, shows it to the person's
// next turn, sums the conversation up when it is told to, and forgets.
func TestMemory(t *testing.T) {
	t.Parallel()
	models := modeltest.New(t)
	models.Script(modeltest.Reply{Text: `{"facts":[{"key":"diet","text":"eats no meat"}]}`})
	s := newSite(t, strings.ReplaceAll(memoryConfig, "URL", models.URL))
	s.write("key", modeltest.Key)
	if err := os.Chmod(filepath.Join(s.dir, "key"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.send("c", "1", "I eat no meat")
	if got := s.reply("c", 1).Text; got != "You said: I eat no meat" {
		t.Errorf("answered %q", got)
	}
	var notes []memory.Note
	s.eventually("a note of the turn", func() error {
		notes = run[[]memory.Note](s, "memory", "list")
		if len(notes) != 1 {
			return fmt.Errorf("notes %+v", notes)
		}
		return nil
	})
	if n := notes[0]; n.Key != "diet" || n.Agent != "main" || n.Person == "" || n.Turn == "" || !slices.Contains(n.Labels, memory.Extracted) {
		t.Errorf("noted %+v", n)
	}
	s.kill()
	s.start()
	s.send("d", "2", "what meat is there?") // in another conversation
	if got := s.reply("d", 1).Text; !strings.Contains(got, "[From your memory") || !strings.Contains(got, "diet (") {
		t.Errorf("recalled %q", got)
	}
	s.send("d", "3", "thank you")
	s.reply("d", 2)
	s.send("d", "4", "/compact")
	s.eventually("the conversation is compacted", func() error {
		for _, r := range models.Requests() {
			if strings.Contains(string(r.Body), "The turns to sum up") && strings.Contains(string(r.Body), "what meat is there?") {
				return nil
			}
		}
		return fmt.Errorf("%d requests, none for it", len(models.Requests()))
	})
	if gone := run[[]memory.Note](s, "memory", "forget", "--person", notes[0].Person); len(gone) == 0 {
		t.Error("nothing is forgotten")
	}
}
