package host

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

// TestTheDemoModelDoesWhatIsOfferedToTry says each of the three texts of the first screen, and looks at the answer.
func TestTheDemoModelDoesWhatIsOfferedToTry(t *testing.T) {
	for profile, want := range map[string][]string{
		"coding":    {"You said: hello", "Linux", "Model: demo"},
		"messaging": {"You said: hello", "You said: one word after the other", "Model: demo"},
	} {
		t.Run(profile, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "flynn.toml")
			text := fmt.Sprintf("[store]\ndir = %q\n[gateway]\nlisten = \"127.0.0.1:0\"\n[routing]\ndefault_agent = \"a\"\n"+
				"[agent_configs.a]\ntool_profile = %q\napprove = \"none\"\n", dir+"/s", profile)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			h, err := New(t.Context(), Config{Path: path, Getenv: os.Getenv, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			run(t, h)
			intro, b := h.Intro(), h.backend()
			if len(intro.Try) != len(want) || !strings.Contains(intro.Notice, "demo model") {
				t.Fatalf("the first screen says %+v", intro)
			}
			_, events, stop := b.Conversations.Watch(gateway.ChannelWeb, "main")
			defer stop()
			for i, s := range intro.Try {
				if err := b.Conversations.Submit(t.Context(), message.Message{
					Channel: gateway.ChannelWeb, EventID: fmt.Sprint(i), Text: s.Text, Sender: message.Sender{ID: "owner"}, Addressed: true,
					Conversation: message.Conversation{ID: "main", Kind: message.DM},
				}); err != nil {
					t.Fatal(err)
				}
				for e := range events {
					if e.Kind != message.ReplyReady {
						continue
					}
					if !strings.Contains(e.Text, want[i]) {
						t.Errorf("%s is answered with %q, want %q in it", s.Text, e.Text, want[i])
					}
					break
				}
			}
		})
	}
}
