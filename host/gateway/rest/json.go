package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/jsonform"
)

// problem is gateway.Problem as the library takes it.
type problem struct{ *gateway.Problem }

// GetStatus implements huma.StatusError.
func (p problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (problem) ContentType(string) string { return gateway.ProblemType }

// MarshalJSON implements json.Marshaler.
func (p problem) MarshalJSON() ([]byte, error) { return jsonform.Marshal(p.Problem) }

// Schema implements huma.SchemaProvider.
func (problem) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflectProblem, true, "Problem")
}

func init() {
	// The library has one form of its own errors for the whole program, and no other part of it uses the library.
	huma.NewError = func(status int, text string, errs ...error) huma.StatusError {
		p := gateway.NewProblem(status, codeOf(status), text)
		for _, err := range errs {
			fault := gateway.Fault{Message: err.Error()}
			var detail huma.ErrorDetailer
			if errors.As(err, &detail) {
				d := detail.ErrorDetail() // without its value, which may be a secret
				fault = gateway.Fault{Location: d.Location, Message: plainly(d.Message)}
			}
			p.Errors = append(p.Errors, fault)
		}
		if len(p.Errors) > 0 { // the first fault says more than that there is one
			p.Detail = fmt.Sprintf("%s: %s", p.Errors[0].Location, p.Errors[0].Message)
			if p.Errors[0].Location == "" {
				p.Detail = p.Errors[0].Message
			}
		}
		return problem{p}
	}
}

// plainly says what the library says about times without the words of its own.
func plainly(text string) string {
	if strings.HasPrefix(text, "invalid date/time") {
		return "must be a time such as 2026-03-01T12:00:00Z"
	}
	return text
}

func codeOf(status int) string {
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return gateway.CodeTooLarge
	case status >= http.StatusInternalServerError:
		return gateway.CodeUnavailable
	}
	return gateway.CodeBadRequest
}

// strictJSON reads and writes bodies. It refuses repeated names and bytes after the value; the schemas refuse unknown fields.
var strictJSON = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		text, err := jsonform.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(append(text, '\n'))
		return err
	},
	Unmarshal: decode,
}

func decode(data []byte, v any) error {
	if err := unrepeated(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// unrepeated refuses objects with a name twice, of which readers may take either.
func unrepeated(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	type level struct {
		object bool
		names  []string
		key    bool // a name comes next
	}
	var open []level
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		top := len(open) - 1
		if name, ok := token.(string); ok && top >= 0 && open[top].key {
			if slices.Contains(open[top].names, name) {
				return fmt.Errorf("the name %.40q is there twice", name)
			}
			open[top].names, open[top].key = append(open[top].names, name), false
			continue
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{object: true, key: true})
			continue
		case json.Delim('['):
			open = append(open, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:top]
			top--
		}
		if top >= 0 && open[top].object {
			open[top].key = true
		}
	}
}

var reflectProblem = reflect.TypeFor[gateway.Problem]()
