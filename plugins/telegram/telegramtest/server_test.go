package telegramtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is what a call came back with.
type answer struct {
	status     int
	OK         bool            `json:"ok"`
	Code       int             `json:"error_code"`
	Words      string          `json:"description"`
	Result     json.RawMessage `json:"result"`
	Parameters struct {
		RetryAfter int   `json:"retry_after"`
		MigrateTo  int64 `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

// try calls a method with a form.
func try(s *Server, method string, pairs ...string) (answer, error) {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	resp, err := http.PostForm(s.URL+"/bot"+Token+"/"+method, form)
	if err != nil {
		return answer{}, err
	}
	return read(resp)
}

func read(resp *http.Response) (answer, error) {
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode}
	return a, json.NewDecoder(resp.Body).Decode(&a)
}

func call(t *testing.T, s *Server, method string, pairs ...string) answer {
	t.Helper()
	a, err := try(s, method, pairs...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ids are those of the updates in an answer.
func (a answer) ids(t *testing.T) []int64 {
	t.Helper()
	var list []struct {
		ID int64 `json:"update_id"`
	}
	if err := json.Unmarshal(a.Result, &list); err != nil {
		t.Fatalf("%s: %v", a.Result, err)
	}
	out := []int64{}
	for _, u := range list {
		out = append(out, u.ID)
	}
	return out
}

func TestUpdatesComeUntilTheyAreConfirmed(t *testing.T) {
	s := Start(t)
	chat := s.Private("Ann")
	chat.Say("one")
	chat.Say("two")
	first := call(t, s, "getUpdates").ids(t)
	again := call(t, s, "getUpdates", "timeout", "5").ids(t)
	if len(first) != 2 || fmt.Sprint(first) != fmt.Sprint(again) {
		t.Fatalf("got %v, then %v", first, again)
	}
	rest := call(t, s, "getUpdates", "offset", fmt.Sprint(first[0]+1)).ids(t)
	if len(rest) != 1 || rest[0] != first[1] || s.Unconfirmed() != 1 {
		t.Errorf("after one was confirmed: %v", rest)
	}
	call(t, s, "getUpdates", "offset", fmt.Sprint(first[1]+1))
	if s.Unconfirmed() != 0 {
		t.Errorf("%d are left", s.Unconfirmed())
	}
}

func TestLongPollWaitsForAnUpdate(t *testing.T) {
	s := Start(t)
	got := make(chan answer, 1)
	go func() {
		a, _ := try(s, "getUpdates", "timeout", "30", "allowed_updates", `["message"]`)
		got <- a
	}()
	s.mu.Await(t, "the poll is under way", func() bool { return s.queue.poll != nil })
	s.Private("Ann").Say("hello")
	if a := <-got; len(a.ids(t)) != 1 || s.Allowed()[0] != "message" {
		t.Errorf("got %+v", a)
	}
}

func TestTwoPollers(t *testing.T) {
	s := Start(t)
	got := make(chan answer, 1)
	go func() {
		a, _ := try(s, "getUpdates", "timeout", "30")
		got <- a
	}()
	s.mu.Await(t, "the poll is under way", func() bool { return s.queue.poll != nil })
	call(t, s, "getUpdates")
	if a := <-got; a.Code != 409 || a.status != 409 || a.Words != conflict {
		t.Errorf("the first one hears %+v", a)
	}
}

func TestRefusals(t *testing.T) {
	s := Start(t)
	chat := s.Private("Ann")
	id := fmt.Sprint(chat.ID)
	bob := s.Private("Bob")
	bob.Block("Forbidden: bot was blocked by the user")
	old := s.Group("Team")
	to := old.Migrate()
	call(t, s, "sendMessage", "chat_id", id, "text", "here")
	sent := fmt.Sprint(chat.Messages()[0].ID)
	for _, c := range []struct {
		name, method string
		params       []string
		code         int
		words        string
	}{
		{"no such chat", "sendMessage", []string{"chat_id", "1", "text", "x"}, 400, "chat not found"},
		{"blocked", "sendMessage", []string{"chat_id", fmt.Sprint(bob.ID), "text", "x"}, 403, "bot was blocked by the user"},
		{"upgraded", "sendMessage", []string{"chat_id", fmt.Sprint(old.ID), "text", "x"}, 400, "upgraded to a supergroup"},
		{"empty", "sendMessage", []string{"chat_id", id, "text", " "}, 400, "message text is empty"},
		{"long", "sendMessage", []string{"chat_id", id, "text", strings.Repeat("x", 4097)}, 400, "message is too long"},
		{"long in UTF-16", "sendMessage", []string{"chat_id", id, "text", strings.Repeat("😀", 2049)}, 400, "message is too long"},
		{"unknown tag", "sendMessage", []string{"chat_id", id, "text", "<h1>x</h1>", "parse_mode", "HTML"}, 400, `Unsupported start tag "h1" at byte offset 0`},
		{"open tag", "sendMessage", []string{"chat_id", id, "text", "<b>x", "parse_mode", "HTML"}, 400, `Can't find end tag corresponding to start tag "b"`},
		{"crossed tags", "sendMessage", []string{"chat_id", id, "text", "<b><i>x</b></i>", "parse_mode", "HTML"}, 400, `expected "</i>", found "</b>"`},
		{"unpaired", "sendMessage", []string{"chat_id", id, "text", "x</b>", "parse_mode", "HTML"}, 400, "Unexpected end tag"},
		{"long value", "sendMessage", []string{"chat_id", id, "text", "x", "reply_markup", `{"inline_keyboard":[[{"text":"a","callback_data":"` + strings.Repeat("v", 65) + `"}]]}`}, 400, "BUTTON_DATA_INVALID"},
		{"no topic", "sendMessage", []string{"chat_id", id, "text", "x", "message_thread_id", "7"}, 400, "message thread not found"},
		{"answers nothing", "sendMessage", []string{"chat_id", id, "text", "x", "reply_parameters", `{"message_id":77}`}, 400, "message to be replied not found"},
		{"same again", "editMessageText", []string{"chat_id", id, "message_id", sent, "text", "here"}, 400, "message is not modified"},
		{"edits nothing", "editMessageText", []string{"chat_id", id, "message_id", "77", "text", "x"}, 400, "message to edit not found"},
		{"deletes nothing", "deleteMessage", []string{"chat_id", id, "message_id", "77"}, 400, "message to delete not found"},
		{"strange reaction", "setMessageReaction", []string{"chat_id", id, "message_id", sent, "reaction", `[{"type":"emoji","emoji":"🦖"}]`}, 400, "REACTION_INVALID"},
		{"no such query", "answerCallbackQuery", []string{"callback_query_id", "1"}, 400, "query is too old"},
		{"no such file", "getFile", []string{"file_id", "x"}, 400, "invalid file_id"},
		{"large file", "getFile", []string{"file_id", s.AddFile("big.bin", nil, 21<<20)}, 400, "file is too big"},
		{"no such method", "sendSmoke", nil, 404, "method not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := call(t, s, c.method, c.params...)
			if a.OK || a.Code != c.code || a.status != c.code || !strings.Contains(a.Words, c.words) {
				t.Errorf("got %+v", a)
			}
			if c.name == "upgraded" && a.Parameters.MigrateTo != to.ID {
				t.Errorf("migrate to %d", a.Parameters.MigrateTo)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	s := Start(t)
	for _, c := range []struct {
		name, path string
		code       int
	}{
		{"right", "/bot" + Token + "/getMe", 200},
		{"any case", "/bot" + Token + "/GETME", 200},
		{"wrong", "/bot1:AAF/getMe", 401},
		{"malformed", "/botx/getMe", 404},
		{"no bot", "/", 404},
	} {
		resp, err := http.Get(s.URL + c.path)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := read(resp); err != nil || a.status != c.code || a.OK != (c.code == 200) {
			t.Errorf("%s: %+v, %v", c.name, a, err)
		}
	}
	s.Revoke(true)
	if a := call(t, s, "getMe"); a.Code != 401 {
		t.Errorf("revoked: %+v", a)
	}
}

func TestFaults(t *testing.T) {
	s := Start(t)
	chat := s.Private("Ann")
	say := []string{"chat_id", fmt.Sprint(chat.ID), "text", "x"}
	s.Fail("sendMessage", TooMany(7), Fault{Code: 502, HTML: true}, Fault{Cut: CutBefore}, Fault{Cut: CutAfter}, Fault{Delay: time.Millisecond})
	if a := call(t, s, "sendMessage", say...); a.Code != 429 || a.Parameters.RetryAfter != 7 {
		t.Errorf("got %+v", a)
	}
	resp, err := http.PostForm(s.URL+"/bot"+Token+"/sendMessage", url.Values{})
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 502 || !bytes.HasPrefix(page, []byte("<html>")) {
		t.Errorf("got %d, %s", resp.StatusCode, page)
	}
	for _, shown := range []int{0, 1} {
		if a, err := try(s, "sendMessage", say...); err == nil {
			t.Errorf("cut: %+v", a)
		}
		if got := len(chat.Messages()); got != shown {
			t.Errorf("%d messages show, want %d", got, shown)
		}
	}
	if a := call(t, s, "sendMessage", say...); !a.OK || len(chat.Messages()) != 2 {
		t.Errorf("after the faults: %+v", a)
	}
}

func TestWebhookBringsAnUpdateUntilItIsTaken(t *testing.T) {
	s := Start(t)
	var tries atomic.Int32
	secrets := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secrets <- r.Header.Get("X-Telegram-Bot-Api-Secret-Token")
		if tries.Add(1) < 3 {
			w.WriteHeader(503)
		}
	}))
	defer hook.Close()
	s.Private("Ann").Say("hello")
	call(t, s, "setWebhook", "url", hook.URL, "secret_token", "sesame", "allowed_updates", `["message"]`)
	s.AwaitConfirmed()
	if tries.Load() != 3 || <-secrets != "sesame" {
		t.Errorf("%d tries", tries.Load())
	}
	if a := call(t, s, "getUpdates"); a.Code != 409 || !strings.Contains(a.Words, "while webhook is active") {
		t.Errorf("polling beside a webhook: %+v", a)
	}
	call(t, s, "deleteWebhook")
	if a := call(t, s, "getUpdates"); !a.OK {
		t.Errorf("polling afterwards: %+v", a)
	}
}

// upload calls a method with a file.
func upload(t *testing.T, s *Server, method, field, name string, content []byte, chat int64) answer {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile(field, name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = part.Write(content)
	resp, err2 := http.Post(s.URL+"/bot"+Token+"/"+method+"?chat_id="+fmt.Sprint(chat), form.FormDataContentType(), io.MultiReader(&body, closing(form)))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	a, err := read(resp)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// closing is the end of a form.
func closing(form *multipart.Writer) io.Reader {
	return strings.NewReader("\r\n--" + form.Boundary() + "--\r\n")
}

// pngOf is a picture of a size.
func pngOf(t *testing.T, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFilesGoUpAndComeDown(t *testing.T) {
	s := Start(t)
	chat := s.Private("Ann")
	a := upload(t, s, "sendDocument", "document", "notes.txt", []byte("some notes"), chat.ID)
	var message struct {
		Document struct {
			ID string `json:"file_id"`
		} `json:"document"`
	}
	if err := json.Unmarshal(a.Result, &message); err != nil || !a.OK {
		t.Fatalf("%+v, %v", a, err)
	}
	var f struct {
		Path string `json:"file_path"`
	}
	if err := json.Unmarshal(call(t, s, "getFile", "file_id", message.Document.ID).Result, &f); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(s.URL + "/file/bot" + Token + "/" + f.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if content, _ := io.ReadAll(resp.Body); string(content) != "some notes" {
		t.Errorf("came down as %q", content)
	}
	for _, c := range []struct {
		name    string
		content []byte
		words   string
	}{
		{"no picture", []byte("text"), "IMAGE_PROCESS_FAILED"},
		{"long picture", pngOf(t, 2100, 100), "PHOTO_INVALID_DIMENSIONS"},
		{"a picture", pngOf(t, 20, 20), ""},
	} {
		a := upload(t, s, "sendPhoto", "photo", "a.png", c.content, chat.ID)
		if a.OK != (c.words == "") || !strings.Contains(a.Words, c.words) {
			t.Errorf("%s: %+v", c.name, a)
		}
	}
}
