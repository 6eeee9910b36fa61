package decisionlog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/flynnhost/flynn/host/policy/journal"
)

// exported is a decision as Encode writes it. Args and Calls are bytes, because they may be damaged JSON.
type exported struct {
	journal.Decision
	Args, Calls []byte
}

// Encode writes decisions as lines of JSON.
func Encode(log iter.Seq2[journal.Decision, error], w io.Writer) error {
	buffered := bufio.NewWriter(w)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	for d, err := range log {
		if err == nil {
			err = enc.Encode(exported{d, d.Args, d.Calls})
		}
		if err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// Decode reads what Encode has written, and ends with the first error.
func Decode(r io.Reader) iter.Seq2[journal.Decision, error] {
	return func(yield func(journal.Decision, error) bool) {
		for dec := json.NewDecoder(r); ; {
			var e exported
			err := dec.Decode(&e)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(journal.Decision{}, fmt.Errorf("read the decisions: %w", err))
				return
			}
			e.Decision.Args, e.Decision.Calls = e.Args, e.Calls
			if !yield(e.Decision, nil) {
				return
			}
		}
	}
}
