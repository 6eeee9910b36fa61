package livetest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
)

// TestInitToTheFirstAnswer goes from an empty folder to an answer over Telegram by flynn init alone.
func TestInitToTheFirstAnswer(t *testing.T) {
	plugin := telegramDir(t)
	server := telegramtest.Start(t)
	dir := t.TempDir()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(telegramtest.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, answers := io.Pipe()
	var out safeBuffer
	cmd := exec.Command(filepath.Join(bin(t), "flynn"), "init", "--dir", dir, "--plain", "--model-provider", "demo", "--channel", "telegram",
		"--plugin-dir", "telegram="+plugin, "--token-file", token, "--set", "api_url="+server.URL, "--listen", "127.0.0.1:"+freePort(t), "--start")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &out
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "DOCKER_HOST=")
	cmd.WaitDelay = time.Second
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = answers.Close()
		_ = cmd.Wait()
	})
	await := func(text string) {
		t.Helper()
		for deadline := time.Now().Add(patience); !strings.Contains(out.String(), text); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no %q in\n%s", text, out.String())
			}
		}
		t.Logf("%6v %s", time.Since(began).Round(time.Millisecond), text)
	}
	answer := func(text string) {
		if _, err := io.WriteString(answers, text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	await("It does, after")
	await("the owner? You confirm a code.")
	answer("y")
	await("Write to it now")
	chat := server.Private("Ann")
	chat.Say("hello")
	await("Does your own chat show this code?")
	code := chat.AwaitMessages(1)[0].Text
	shown := out.String()
	shown = strings.Fields(shown[strings.Index(shown, "got the code ")+len("got the code "):])[0]
	if shown = strings.TrimSuffix(shown, "."); !strings.Contains(code, shown) {
		t.Fatalf("the terminal shows %s, the chat %s", shown, code)
	}
	answer("y")
	await("is the owner.")
	await("Flynn is ready")
	n := len(chat.AwaitMessages(2))
	chat.Say("hello again")
	if m := chat.AwaitMessages(n + 1)[n]; !strings.Contains(m.Text, "You said: hello again") {
		t.Errorf("answered %q", m.Text)
	}
	t.Logf("%6v the first answer", time.Since(began).Round(time.Millisecond))
	text, err := os.ReadFile(filepath.Join(dir, "flynn.toml"))
	if err != nil || !bytes.Contains(text, []byte("owners = [\"telegram:")) || bytes.Contains(text, []byte(telegramtest.Token)) {
		t.Errorf("wrote (%v)\n%s", err, text)
	}
	if info, err := os.Stat(filepath.Join(dir, "flynn-data/secrets/telegram_token")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the secret: %v, %v", info, err)
	}
}
