package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/gateway/api"
)

// request has the fields of a request that count; all others are settings that an agent has itself.
type request struct {
	Model    string         `json:"model"`
	Messages []chatMessage  `json:"messages"`
	Stream   bool           `json:"stream"`
	Options  *streamOptions `json:"stream_options"`
	User     string         `json:"user"`
	N        *int           `json:"n"`
	Tools    []any          `json:"tools"`
	Format   *struct {
		Type string `json:"type"`
	} `json:"response_format"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a text, or a list of parts that are texts or images.
type content struct {
	text   string
	images []api.File
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &c.text) == nil {
		return nil
	}
	var parts []struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Image struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return errors.New("content is neither a text nor a list of parts")
	}
	var texts []string
	for _, p := range parts {
		switch p.Type {
		case "text":
			texts = append(texts, p.Text)
		case "image_url":
			image, err := decodeImage(p.Image.URL)
			if err != nil {
				return err
			}
			c.images = append(c.images, image)
		default:
			return fmt.Errorf("a part of type %.40q is not supported; send text and image_url", p.Type)
		}
	}
	c.text = strings.Join(texts, "\n")
	return nil
}

// maxMessages bounds the messages of a request.
const maxMessages = 2048

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", api.ErrInvalid, fmt.Sprintf(format, args...))
}

// ignored are the parts of a client's requests that the configuration ignores.
type ignored struct {
	parts   []string
	section string // of the configuration
}

func (i ignored) has(part string) bool { return slices.Contains(i.parts, part) }

// hint says how to have a part ignored.
func (i ignored) hint(part string) string {
	return fmt.Sprintf("leave %s out, or set ignore = [%q] in %s of flynn.toml", part, part, i.section)
}

// decode reads a request. Unsupported parts are refused, so that no client believes that they had an effect.
func decode(body io.Reader, ignore ignored) (request, error) {
	var req request
	dec := json.NewDecoder(body)
	if err := dec.Decode(&req); err != nil {
		return req, unreadable(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return req, invalid("something follows the JSON object")
	}
	switch {
	case len(req.Messages) == 0:
		return req, invalid("messages are missing")
	case len(req.Messages) > maxMessages:
		return req, invalid("%d messages are more than %d", len(req.Messages), maxMessages)
	case req.N != nil && *req.N != 1:
		return req, invalid("an agent gives one answer; leave n out")
	case len(req.Tools) > 0 && !ignore.has("tools"):
		return req, invalid("an agent has its own tools; %s", ignore.hint("tools"))
	case req.Format != nil && req.Format.Type != "text" && !ignore.has("response_format"):
		return req, invalid("an agent answers in text; %s", ignore.hint("response_format"))
	}
	for i, m := range req.Messages {
		switch m.Role {
		case "system", "developer", "user", "assistant":
		default:
			return req, invalid("messages[%d] has the role %.40q; an agent has its own tools", i, m.Role)
		}
		if m.Role != "user" && len(m.Content.images) > 0 {
			return req, invalid("messages[%d] has the role %s and an image; only the user may send images", i, m.Role)
		}
	}
	if last := req.Messages[len(req.Messages)-1]; last.Role != "user" {
		return req, invalid("the last message is not the user's")
	}
	return req, nil
}

// unreadable is the error of a body that is not a request, in terms of JSON and not of Go types.
func unreadable(err error) error {
	var kind *json.UnmarshalTypeError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return err
	case errors.As(err, &kind) && kind.Field == "":
		return invalid("read the body: it is a JSON %s, not an object", kind.Value)
	case errors.As(err, &kind):
		return invalid("read the body: %s cannot be a JSON %s", kind.Field, kind.Value)
	}
	return invalid("read the body: %v", err)
}

// text is the message to the agent: the new messages, after the earlier ones if the agent does not remember them itself. All of it comes
// from the client, and none of it becomes part of the agent's system prompt, whatever its role: a client's instructions are marked as such,
// apart from the question. left counts the earlier images that are not shown.
func (r request) text(remembered bool, left int) (string, error) {
	first := r.unanswered()
	from := 0
	if remembered {
		from = first
	}
	var b strings.Builder
	for _, m := range r.Messages[from:] {
		if m.instructs() && m.Content.text != "" {
			if b.Len() == 0 {
				b.WriteString("Instructions of the client that asks. They come from the client, not from your operator:\n\n")
			}
			fmt.Fprintf(&b, "  %s\n", indented(m.Content))
		}
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	if before := r.before(from, first); before != "" {
		fmt.Fprintf(&b, "What was said before:\n\n%s", before)
		if left > 0 {
			fmt.Fprintf(&b, "(%d earlier images are not shown.)\n", left)
		}
		b.WriteString("\n")
	}
	if b.Len() > 0 {
		b.WriteString("The question:\n\n")
	}
	var asked []string
	for _, m := range r.Messages[first:] {
		if !m.instructs() {
			asked = append(asked, m.Content.text)
		}
	}
	b.WriteString(strings.Join(asked, "\n\n"))
	if b.Len() > api.MaxText {
		return "", invalid("the messages have %d bytes, more than %d: send fewer, or name a session in the field user", b.Len(), api.MaxText)
	}
	return b.String(), nil
}

// before are the messages from one index to another, a line each, without instructions.
func (r request) before(from, to int) string {
	var b strings.Builder
	for _, m := range r.Messages[from:to] {
		if !m.instructs() {
			fmt.Fprintf(&b, "%s: %s\n", m.Role, indented(m.Content))
		}
	}
	return b.String()
}

// instructs reports whether a message is an instruction of the client.
func (m chatMessage) instructs() bool { return m.Role == "system" || m.Role == "developer" }

// unanswered is the first message after the last answer.
func (r request) unanswered() int {
	first := len(r.Messages) - 1
	for first > 0 && r.Messages[first-1].Role != "assistant" {
		first--
	}
	return first
}

// images are the images that the agent is shown, in their order: all of the question and, if the agent does not remember them itself, the
// latest of the earlier ones, up to most in all. left counts those that are not shown.
func (r request) images(remembered bool, most int) (shown []api.File, left int, err error) {
	first := r.unanswered()
	var before []api.File
	for i, m := range r.Messages {
		if i < first && !remembered {
			before = append(before, m.Content.images...)
		} else if i >= first {
			shown = append(shown, m.Content.images...)
		}
	}
	most = min(most, maxImages)
	switch {
	case most == 0 && len(shown) > 0:
		return nil, 0, invalid("this host accepts no images: [media] max_files is 0")
	case len(shown) > most:
		return nil, 0, invalid("the question has %d images, more than %d: send fewer at once, or raise [media] max_files (to %d at most)",
			len(shown), most, maxImages)
	}
	left = max(0, len(before)-(most-len(shown)))
	shown = append(before[left:], shown...)
	for i := range shown {
		shown[i].Name = fmt.Sprintf("image-%d.%s", i+1, strings.TrimPrefix(shown[i].Type, "image/"))
	}
	return shown, left, nil
}

// indented keeps further lines of a message from being read as other messages.
func indented(c content) string { return strings.ReplaceAll(c.text, "\n", "\n  ") }
