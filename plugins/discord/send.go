package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/bwmarrin/discordgo"

	"github.com/flynnhost/flynn/sdk/cache"
	"github.com/flynnhost/flynn/sdk/channel"
	"github.com/flynnhost/flynn/sdk/markdown"
	"github.com/flynnhost/flynn/sdk/webapi"
)

// outgoing is a message as Discord takes it.
type outgoing struct {
	Content         string            `json:"content"`
	Nonce           string            `json:"nonce,omitempty"`
	EnforceNonce    bool              `json:"enforce_nonce,omitempty"`
	AllowedMentions allowedMentions   `json:"allowed_mentions"`
	Reference       *messageReference `json:"message_reference,omitempty"`
	Components      []row             `json:"components"`
	Attachments     []attachmentHead  `json:"attachments,omitempty"`

	files []file
}

// allowedMentions limits which people a message notifies: only the author of the answered message, whatever the text contains.
type allowedMentions struct {
	Parse       []string `json:"parse"`
	RepliedUser bool     `json:"replied_user"`
}

type messageReference struct {
	MessageID       string `json:"message_id"`
	FailIfNotExists bool   `json:"fail_if_not_exists"`
}

type attachmentHead struct {
	ID       int    `json:"id"`
	Filename string `json:"filename"`
}

type file struct {
	name, kind string
	data       []byte
}

// row is a row of buttons.
type row struct {
	Type       int      `json:"type"`
	Components []button `json:"components"`
}

type button struct {
	Type     int    `json:"type"`
	Style    int    `json:"style"`
	Label    string `json:"label"`
	CustomID string `json:"custom_id"`
}

// buttonPrefix distinguishes our buttons from those of other programs that use the same bot.
const buttonPrefix = "flynn:"

// again marks a message that may have been sent before Discord forgot its nonce. It is a paragraph: on the line of a heading or of a
// block of code it would be in the way.
const again = "(possibly again)\n\n"

// Send implements channel.Channel. A repeated key is recognised by Discord through the nonce for some minutes, and longer by what this
// process remembers.
func (p *plugin) Send(ctx context.Context, s channel.Send) (channel.Sent, error) {
	if !isSnowflake(s.Conversation.ID) {
		return channel.Sent{Outcome: channel.OutcomeRefused}, fmt.Errorf("%q is not a channel of discord", s.Conversation.ID)
	}
	messages, err := p.compose(ctx, s)
	if err != nil {
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: time.Hour}, err
	}
	return channel.Series(ctx, s, len(messages), func(ctx context.Context, i int) (string, error) {
		return p.post(ctx, s, i, messages[i])
	}, outcome)
}

// compose makes the messages of a send: as many as its text needs. The first is the answer, the last has buttons and files.
func (p *plugin) compose(ctx context.Context, s channel.Send) ([]outgoing, error) {
	text, done := s.Text, s.Delivered()
	if s.PossibleDuplicate && done == 0 {
		text = again + text
	}
	pieces := pieces(text, s.Markdown)
	if s.PossibleDuplicate && done > 0 && done < len(pieces) && length(again+pieces[done]) <= maxText { // cut again, the pieces would differ
		pieces[done] = again + pieces[done]
	}
	if len(pieces) == 0 {
		pieces = []string{""}
	}
	all := make([]outgoing, len(pieces))
	for i, piece := range pieces {
		all[i] = outgoing{
			Content: piece, Nonce: nonce(s.Key, i), EnforceNonce: true, AllowedMentions: allowedMentions{Parse: []string{}, RepliedUser: true},
			Components: []row{},
		}
	}
	if isSnowflake(s.ReplyTo) {
		all[0].Reference = &messageReference{MessageID: s.ReplyTo}
	}
	last := &all[len(all)-1]
	last.Components = rows(s.Buttons)
	for i, a := range s.Attachments[:min(len(s.Attachments), 10)] {
		f, err := p.uploaded(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("attachment %q: %w", a.Name, err)
		}
		last.Attachments = append(last.Attachments, attachmentHead{i, f.name})
		last.files = append(last.files, f)
	}
	if last.Content == "" && last.files == nil {
		return nil, errors.New("the message is empty")
	}
	return all, nil
}

// uploaded reads a file that the host stores until it is sent.
func (p *plugin) uploaded(ctx context.Context, a channel.Attachment) (file, error) {
	m, err := p.Host.OpenMedia(ctx, a.Handle)
	if err != nil {
		return file{}, err
	}
	data, err := io.ReadAll(channel.Bounded(m.Body, maxFile, nil))
	return file{cmp.Or(a.Name, m.Name), cmp.Or(a.Type, m.Type), data}, err
}

// pieces splits a text into messages, and renders them.
func pieces(text string, isMarkdown bool) []string {
	render := func(s string) string { return s }
	if isMarkdown {
		render = func(s string) string { return markdown.Render(s, markdown.Discord) }
	}
	var out []string
	for _, piece := range markdown.Split(text, maxText, func(s string) int { return length(render(s)) }) {
		if piece = render(piece); piece != "" {
			out = append(out, piece)
		}
	}
	return out
}

// length counts UTF-16 code units, which is never less than Discord's count.
func length(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// rows puts buttons into rows of five.
func rows(buttons []channel.Button) []row {
	out := []row{}
	for i, b := range buttons[:min(len(buttons), 25)] {
		if i%5 == 0 {
			out = append(out, row{Type: 1})
		}
		label := []rune(b.Text)
		style := map[channel.ButtonStyle]int{channel.ButtonPrimary: 1, channel.ButtonDanger: 4}[b.Style]
		if style == 0 {
			style = 2
		}
		last := &out[len(out)-1]
		last.Components = append(last.Components, button{2, style, string(label[:min(len(label), 80)]), buttonPrefix + b.Value})
	}
	return out
}

// nonce returns the id by which Discord recognises a message that it has seen: at most 25 characters.
func nonce(key string, piece int) string {
	sum := sha256.Sum256([]byte(key + "\x00" + strconv.Itoa(piece)))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:25]
}

// post sends one message: as the response to a command if it is one, otherwise to the channel.
func (p *plugin) post(ctx context.Context, s channel.Send, i int, m outgoing) (string, error) {
	if i == 0 {
		if w := p.waiting.find(ctx, s.Conversation.ID, s.ReplyTo); w != nil {
			id, err := p.answer(ctx, w, m)
			if refused, ok := errors.AsType[*refusedError](err); !ok || refused.status >= 500 {
				return id, err
			}
			p.log.Info("the command cannot be answered any more, a message is sent instead", "error", err)
			p.waiting.drop(w.id)
		}
	}
	p.sends.try(m.Nonce, time.Now())
	var out struct {
		ID string `json:"id"`
	}
	err := p.request(ctx, "POST", "/channels/"+s.Conversation.ID+"/messages", m, &out)
	return out.ID, err
}

// answer replaces "thinking". It is idempotent, so it needs no mark.
func (p *plugin) answer(ctx context.Context, w *waitingAnswer, m outgoing) (string, error) {
	_, app := p.world.ids()
	m.Nonce, m.EnforceNonce, m.Reference, m.Content = "", false, nil, strings.TrimPrefix(m.Content, again)
	var out struct {
		ID string `json:"id"`
	}
	err := p.request(ctx, "PATCH", "/webhooks/"+app+"/"+w.token+"/messages/@original", m, &out)
	if err == nil {
		p.waiting.drop(w.id)
	}
	return out.ID, err
}

// request sends a message, as a form when it has files.
func (p *plugin) request(ctx context.Context, method, path string, m outgoing, out any) error {
	if len(m.files) == 0 {
		return p.client.call(ctx, method, path, m, out)
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	payload, err := json.Marshal(m)
	if err == nil {
		err = form.WriteField("payload_json", string(payload))
	}
	for i, f := range m.files {
		if err == nil {
			err = addFile(form, i, f)
		}
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	return p.client.do(ctx, method, path, form.FormDataContentType(), body.Bytes(), out)
}

func addFile(form *multipart.Writer, i int, f file) error {
	h := textproto.MIMEHeader{}
	h.Set("Content-Disposition", multipart.FileContentDisposition("files["+strconv.Itoa(i)+"]", f.name))
	if h.Set("Content-Type", "application/octet-stream"); f.kind != "" && !strings.ContainsAny(f.kind, "\r\n") {
		h.Set("Content-Type", f.kind)
	}
	part, err := form.CreatePart(h)
	if err == nil {
		_, err = part.Write(f.data)
	}
	return err
}

// outcome returns the outcome of a message whose request has failed.
func outcome(err error) (channel.Sent, error) {
	limited, isLimited := errors.AsType[*limitedError](err)
	refused, isRefused := errors.AsType[*refusedError](err)
	switch {
	case isLimited:
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: limited.after}, err
	case isRefused && refused.status >= 500:
		return channel.Sent{Outcome: channel.OutcomeUnknown}, err
	case isRefused && refused.status == http.StatusUnauthorized:
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: 5 * time.Minute}, err
	case isRefused && refused.status == http.StatusNotFound: // the channel is gone
		return channel.Sent{Outcome: channel.OutcomeRefused}, err
	case isRefused: // a permission can be given
		return channel.Sent{Outcome: channel.OutcomeNotSent, RetryAfter: time.Hour}, err
	case webapi.Unsent(err):
		return channel.Sent{Outcome: channel.OutcomeNotSent}, err
	}
	return channel.Sent{Outcome: channel.OutcomeUnknown}, err
}

// Reconcile implements channel.Reconciler: it checks our own messages seen by the gateway, then the latest messages of the channel.
func (p *plugin) Reconcile(ctx context.Context, r channel.Reconcile) (channel.Sent, error) {
	texts := pieces(r.Text, true)
	var ids []string
	for i := range max(1, len(texts)) {
		id, err := p.lookUp(ctx, r.Conversation.ID, nonce(r.Key, i), texts[min(i, len(texts)):min(i+1, len(texts))])
		switch {
		case errors.Is(err, errNotThere) && i == 0:
			return channel.Sent{Outcome: channel.OutcomeNotSent}, nil
		case err != nil || id == "":
			return channel.Sent{Outcome: channel.OutcomeUnknown}, err
		}
		ids = append(ids, id)
	}
	return channel.Sent{Outcome: channel.OutcomeSent, MessageIDs: ids}, nil
}

var errNotThere = errors.New("discord does not have the message")

// lookUp searches for one of our messages. Discord does not store the nonce, so the message is recognised by its text, among those after
// the attempt; only the process that made the attempt knows its time. It returns errNotThere only if all later messages were seen.
func (p *plugin) lookUp(ctx context.Context, channelID, nonce string, text []string) (string, error) {
	id, tried := p.sends.look(nonce)
	if id != "" || tried.IsZero() || !isSnowflake(channelID) {
		return id, nil
	}
	var page []*discordgo.Message
	if err := p.client.call(ctx, "GET", "/channels/"+channelID+"/messages?limit=100", nil, &page); err != nil {
		return "", err
	}
	complete := len(page) < pageSize
	for _, m := range page {
		if m.Timestamp.Before(tried.Add(-clockSkew)) {
			complete = true
			continue
		}
		if m.Author != nil && p.world.is(m.Author.ID) && len(text) == 1 && strings.TrimSpace(m.Content) == strings.TrimSpace(text[0]) {
			return m.ID, nil
		}
	}
	if !complete {
		return "", nil
	}
	return "", errNotThere
}

// clockSkew is how far our clock may be ahead of Discord's.
const clockSkew = 5 * time.Second

// sends remembers the messages under way, by nonce: when they were first tried, and the ids under which Discord has shown them.
type sends struct {
	tried *cache.Map[string, time.Time]
	seen  *cache.Map[string, string]
}

const maxSends = 1000

func newSends() sends {
	return sends{&cache.Map[string, time.Time]{Most: maxSends}, &cache.Map[string, string]{Most: maxSends}}
}

// try records that a message is about to be sent. The first time counts.
func (s sends) try(nonce string, now time.Time) {
	if _, ok := s.tried.Get(nonce); !ok {
		s.tried.Set(nonce, now, 0)
	}
}

func (s sends) look(nonce string) (id string, tried time.Time) {
	id, _ = s.seen.Get(nonce)
	tried, _ = s.tried.Get(nonce)
	return id, tried
}

// echo records a message of ours that the gateway shows.
func (x *incoming) echo(m *discordgo.Message) {
	var with struct {
		Nonce string `json:"nonce"`
	}
	if json.Unmarshal(x.raw, &with) == nil && len(with.Nonce) == 25 {
		x.sends.seen.Set(with.Nonce, m.ID, 0)
	}
}
