package livetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/model/modeltest"
	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
)

// telegram is built once for all tests.
var telegram struct {
	once sync.Once
	err  error
}

// telegramDir is the folder of the plugin telegram, as somebody has it who ran `just build`: its limit of memory has no room for the race
// detector.
func telegramDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(bin(t), "telegram")
	telegram.once.Do(func() {
		if telegram.err = build(filepath.Join(dir, "bin"), "./plugins/telegram", false); telegram.err == nil {
			telegram.err = describe(dir, "plugins/telegram")
		}
	})
	if telegram.err != nil {
		t.Fatal(telegram.err)
	}
	return dir
}

const telegramConfig = `
[agent_configs.helper]
[routing]
default_agent = "helper"
[models.default]
provider = "demo"
[access]
mode = "open"
[channels.telegram]
plugin = "telegram"
token_env = "FLYNN_LIVETEST_TELEGRAM"
`

// newTelegram is a site with the plugin installed and a Telegram of its own. Above stands what somebody would write; below what
// keeps tests apart.
func newTelegram(t *testing.T) (*site, *telegramtest.Server) {
	t.Helper()
	tg := telegramtest.Start(t)
	s := newSite(t, telegramConfig+fmt.Sprintf("api_url = %q\n", tg.URL)+
		"[gateway]\nlisten = \"127.0.0.1:%PORT%\"\n[store]\ndir = \"%DIR%/state\"\n[plugins]\ndir = \"%DIR%/plugins\"\n")
	s.mustFlynn("plugin", "install", telegramDir(t))
	return s, tg
}

// once checks that the bot said a text in a chat, and said it once. Replies to a later message come after all
// earlier ones.
func (s *site) once(t *testing.T, chat *telegramtest.Chat, text string) {
	t.Helper()
	const end = "You said: the end\n"
	said := func() (all string) {
		for _, m := range chat.Messages() {
			all += m.Text + "\n"
		}
		return all
	}
	ends := strings.Count(said(), end)
	chat.Say("the end")
	s.eventually("the last message is answered", func() error {
		if strings.Count(said(), end) == ends {
			return errors.New("the bot said:\n" + said())
		}
		return nil
	})
	if all := said(); strings.Count(all, text) != 1 || !strings.HasSuffix(all, end) {
		t.Errorf("the bot said:\n%s", all)
	}
}

func TestTelegramAnswers(t *testing.T) {
	t.Parallel()
	s, tg := newTelegram(t)
	s.start()
	ann, team := tg.Private("Ann"), tg.Group("Team")
	ann.Say("hello **there**")
	if m := ann.AwaitText(1, "You said: hello there"); m.Mode != "HTML" {
		t.Errorf("got %+v", m)
	}
	team.Say("not for you")
	n := team.Say("@Flynn_Test_Bot hello")
	if m := team.AwaitText(1, "You said: hello"); m.ReplyTo != n {
		t.Errorf("got %+v", m)
	}
	tg.AwaitConfirmed()
	if strings.Contains(s.log.String(), telegramtest.Token) {
		t.Error("the token is in the log")
	}
}

func TestTelegramHostKilledInMidTurn(t *testing.T) {
	t.Parallel()
	s, tg := newTelegram(t)
	tier, server := scripted(t, "default", modeltest.Reply{Stall: true}, modeltest.Reply{Text: "You said: the answer"}, modeltest.Reply{Text: "You said: the end"})
	s.write("flynn.toml", strings.Replace(s.read("flynn.toml"), "[models.default]\nprovider = \"demo\"\n", tier, 1))
	s.start()
	ann := tg.Private("Ann")
	ann.Say("the question")
	s.eventually("the message is in the inbox", func() error { return s.metric(`flynn_messages_total{channel="telegram",fate="new"} 1`) })
	s.asked(server, 1)
	s.kill()
	if n := len(ann.Messages()); n != 0 {
		t.Fatalf("%d answers before the host was killed", n)
	}
	s.start()
	ann.AwaitText(1, "You said: the answer")
	s.once(t, ann, "the answer")
}

func TestTelegramUpdateThatComesAgainIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	s, tg := newTelegram(t)
	ann := tg.Private("Ann")
	ann.Say("hello")
	// The first poll brings the message. The plugin dies in the one that would confirm it.
	tg.Fail("getUpdates", telegramtest.Fault{}, telegramtest.Fault{Delay: time.Hour, Cut: telegramtest.CutBefore})
	s.start()
	ann.AwaitText(1, "You said: hello")
	s.eventually("the answer is delivered", func() error { return s.metric("flynn_replies_waiting 0") })
	pid := s.pluginPID(0)
	if tg.Unconfirmed() != 1 {
		t.Fatal("the message is confirmed already")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	tg.AwaitConfirmed()
	s.eventually("it came twice", func() error { return s.metric(`flynn_messages_total{channel="telegram",fate="duplicate"} 1`) })
	s.once(t, ann, "You said: hello\n")
}

// value finds the value of a button in a keyboard by its text.
func value(t *testing.T, m telegramtest.Message, text string) string {
	t.Helper()
	var board struct {
		Rows [][]struct {
			Text string `json:"text"`
			Data string `json:"callback_data"`
		} `json:"inline_keyboard"`
	}
	if err := json.Unmarshal([]byte(m.Keyboard), &board); err != nil {
		t.Fatalf("keyboard %q below %q: %v", m.Keyboard, m.Text, err)
	}
	for _, row := range board.Rows {
		for _, b := range row {
			if strings.Contains(b.Text, text) {
				return b.Data
			}
		}
	}
	t.Fatalf("no button %q in %s", text, m.Keyboard)
	return ""
}

// TestTelegramApprovalByButton has a guest's command wait until an owner presses a button below the question.
func TestTelegramApprovalByButton(t *testing.T) {
	t.Parallel()
	s, tg := newTelegram(t)
	team := tg.Group("Team")
	bob := tg.Person("Bob")
	config := s.read("flynn.toml")
	config = strings.Replace(config, "[agent_configs.helper]\n", "[agent_configs.helper]\ntool_profile = \"coding\"\n", 1)
	config = strings.Replace(config, "mode = \"open\"\n", fmt.Sprintf("mode = \"open\"\nowners = [\"telegram:%d\"]\n", team.Ann.ID), 1)
	s.write("flynn.toml", config)
	s.start()
	team.SayAs(bob, "@Flynn_Test_Bot !sh echo one-$((40+2))", nil)
	question := team.AwaitMessages(1)[0]
	allow := value(t, question, "Once")
	team.Press(bob, question.ID, allow)
	if m := team.AwaitMessages(2)[1]; !strings.Contains(m.Text, "owner") {
		t.Errorf("a guest pressed it and hears %q", m.Text)
	}
	team.Press(team.Ann, question.ID, allow)
	s.eventually("the command's output is there", func() error {
		for _, m := range team.Messages() {
			if strings.Contains(m.Text, "one-42") {
				return nil
			}
		}
		return fmt.Errorf("shows %+v", team.Messages())
	})
	tg.Await("answerCallbackQuery", 2)
}
