package gateway_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
)

func frames() []string {
	return []string{
		`{"type":"hello","token":"t","channel":"web","conversation":"main"}`,
		`{"type":"hello","token":"t","channel":"irc","conversation":"#flynn","resume":"k"}`,
		`{"type":"send","id":"0198-a.b_c","text":"hello\nworld"}`,
		`{"type":"decide","approval":"a","grant":true}`,
		`{"type":"stop"}`,
		` {"type":"history"} `,
	}
}

func badFrames() map[string]string {
	return map[string]string{
		"empty":                 ``,
		"null":                  `null`,
		"list":                  `[]`,
		"two objects":           `{"type":"stop"}{"type":"stop"}`,
		"cut off":               `{"type":"stop"`,
		"trailing comma":        `{"type":"stop",}`,
		"no type":               `{}`,
		"unknown type":          `{"type":"admin"}`,
		"type of a server":      `{"type":"event"}`,
		"type twice":            `{"type":"stop","type":"history"}`,
		"other spelling":        `{"TYPE":"stop"}`,
		"both spellings":        `{"type":"stop","Type":"history"}`,
		"number":                `{"type":1}`,
		"field of another type": `{"type":"stop","text":"x"}`,
		"missing field":         `{"type":"send","id":"a"}`,
		"null field":            `{"type":"decide","approval":"a","grant":null}`,
		"nested":                `{"type":"send","id":"a","text":{"x":1}}`,
		"deeply nested":         `{"type":` + strings.Repeat(`[`, 10000),
		"grant as text":         `{"type":"decide","approval":"a","grant":"true"}`,
		"not UTF-8":             "{\"type\":\"send\",\"id\":\"a\",\"text\":\"\xff\"}",
		"blank text":            `{"type":"send","id":"a","text":" \t\n"}`,
		"long text":             `{"type":"send","id":"a","text":"` + strings.Repeat("x", message.MaxText+1) + `"}`,
		"long id":               `{"type":"send","id":"` + strings.Repeat("x", 65) + `","text":"x"}`,
		"id with a colon":       `{"type":"send","id":"a:b","text":"x"}`,
		"id beyond ASCII":       `{"type":"send","id":"é","text":"x"}`,
		"conversation with /":   `{"type":"hello","token":"t","channel":"web","conversation":"../x"}`,
		"control in a name":     `{"type":"hello","token":"t","channel":"irc","conversation":"a\u0000b"}`,
		"empty channel":         `{"type":"hello","token":"t","channel":"","conversation":"a"}`,
		"many fields":           `{"type":"stop","a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":""}`,
	}
}

func TestDecodeFrame(t *testing.T) {
	for _, in := range frames() {
		if _, err := gateway.DecodeFrame([]byte(in)); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
	for name, in := range badFrames() {
		t.Run(name, func(t *testing.T) {
			if f, err := gateway.DecodeFrame([]byte(in)); err == nil {
				t.Errorf("decoded %+v", f)
			} else if len(err.Error()) > 400 {
				t.Errorf("the error repeats what was sent: %d bytes", len(err.Error()))
			}
		})
	}
}

// FuzzDecodeFrame holds the decoder to its promises: what passes is in bounds, and means the same when it is written again.
func FuzzDecodeFrame(f *testing.F) {
	for _, s := range frames() {
		f.Add([]byte(s))
	}
	for _, s := range badFrames() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := gateway.DecodeFrame(data)
		if err != nil {
			return
		}
		if len(frame.Text) > message.MaxText || len(frame.ID) > 64 || len(frame.Conversation) > 256 || !utf8.ValidString(frame.Text) {
			t.Fatalf("out of bounds: %+v", frame)
		}
		again, err := json.Marshal(frame)
		if err != nil {
			t.Fatal(err)
		}
		if frame.Type == gateway.TypeHello && frame.Token == "" {
			return // an empty token is left out, and refused later
		}
		second, err := gateway.DecodeFrame(again)
		if err != nil || !reflect.DeepEqual(frame, second) {
			t.Fatalf("%s became %s: %v", data, again, err)
		}
	})
}
