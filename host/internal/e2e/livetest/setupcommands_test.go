package livetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
)

// TestChannelCommands adds, tests, lists and removes a channel, without a host and with one.
func TestChannelCommands(t *testing.T) {
	plugin, server := telegramDir(t), telegramtest.Start(t)
	s := newSite(t, `# Mine.
gateway = { listen = "127.0.0.1:%PORT%", token_file = "token" }
store.dir = "store"
routing.default_agent = "main" # the only one
plugins.dev_paths = { telegram = "`+plugin+`" }
[agent_configs.main]
[models.default]
provider = "demo"
`)
	s.write("right", telegramtest.Token)
	s.write("wrong", "123456789:AAF"+strings.Repeat("x", 32))
	config, secret := filepath.Join(s.dir, "flynn.toml"), filepath.Join(s.dir, "store/secrets/telegram_token")
	original := read(t, config)
	says := func(ok bool, want string, args ...string) {
		t.Helper()
		stdout, stderr, err := s.flynn("", args...)
		if (err == nil) != ok || !strings.Contains(stdout+stderr, want) {
			t.Fatalf("flynn %v: %v, without %q:\n%s%s", args, err, want, stdout, stderr)
		}
		if strings.Contains(stdout+stderr, telegramtest.Token) {
			t.Errorf("flynn %v prints the token", args)
		}
	}
	unchanged := func() {
		t.Helper()
		if read(t, config) != original {
			t.Errorf("the file has become\n%s", read(t, config))
		}
		if _, err := os.Stat(secret); err == nil {
			t.Error("a secret is left")
		}
	}
	add := func(token string, more ...string) []string {
		return append([]string{"channel", "add", "telegram", "--set", "api_url=" + server.URL, "--token-file", filepath.Join(s.dir, token)}, more...)
	}

	says(false, "Telegram does not know the token", add("wrong")...)
	says(false, "nobody can be asked here: give --secret-file token=FILE", "channel", "add", "telegram")
	says(false, "no secret \"key\": it has token", add("right", "--secret-file", "key="+config)...)
	says(false, "hots", add("right", "--set", "hots=1")...)
	says(false, "cannot name a channel", "channel", "add", "a b", "--plugin", "telegram", "--token-file", config)
	says(true, "Nothing is written", add("right", "--dry-run")...)
	unchanged()
	says(true, "Channel telegram is added. Flynn is not running", add("right")...)
	if text := read(t, config); !strings.HasPrefix(text, strings.TrimSuffix(original, "\n")) {
		t.Errorf("more than a channel has changed:\n%s", text)
	}
	says(false, "there is a channel telegram already", add("right")...)
	says(true, "Channel telegram works", "channel", "test", "telegram")
	server.Revoke(true)
	says(false, "channel telegram does not work: ", "channel", "test", "telegram")
	server.Revoke(false)
	says(true, "not running", "channel", "list")

	s.start()
	says(true, "proved", "channel", "list")
	s.eventually("the channel is ready", func() error {
		_, stderr, err := s.flynn("", "channel", "test", "telegram")
		if err != nil {
			t.Log(stderr)
		}
		return err
	})
	says(true, "Channel telegram is removed. It is in force", "channel", "remove", "telegram")
	unchanged()
	says(true, "no channel yet", "channel", "list")
	says(false, "there is none yet; run flynn channel add", "channel", "test", "telegram")
	says(true, "Channel telegram is added. It is in force", add("right")...)
	s.eventually("the channel is ready", func() error {
		_, _, err := s.flynn("", "channel", "test", "telegram")
		return err
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
