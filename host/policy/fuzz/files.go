package fuzz

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/policy"
	"github.com/flynnhost/flynn/host/policy/author"
)

// writeFinds writes each find as a file of cases and as a frame, named by a digest of the question.
func (s *session) writeFinds(ctx context.Context) error {
	if s.config.Finds == "" || len(s.report.Finds) == 0 {
		return nil
	}
	if err := os.MkdirAll(s.config.Finds, 0o755); err != nil {
		return err
	}
	for i := range s.report.Finds {
		if err := s.writeFind(ctx, &s.report.Finds[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) writeFind(ctx context.Context, f *Find) error {
	c := f.input.Case
	asked, err := json.Marshal(c)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(asked)
	name := filepath.Join(s.config.Finds, "fuzz-"+f.Invariant+"-"+hex.EncodeToString(sum[:4]))
	c.Name = "fuzz: " + filepath.Base(name)
	// Only the author knows the right answer. The best guess is the answer that it is compared with, or that of the case.
	if c.Want = f.input.origin.Want; f.Than != nil {
		c.Want = f.Than.Want()
	}
	c.Want.Rule, c.Want.Reason = nil, nil
	var text bytes.Buffer
	comment := f.What + "\nfrom the case " + fmt.Sprintf("%q", f.Case) + "; its answer is " + f.Answer.String() + ".\nThe answer that is wanted below is a guess. Correct it and keep the file in " +
		filepath.Join(s.config.Dir, "cases") + "."
	if err := author.WriteCase(&text, c, comment); err != nil {
		return err
	}
	_, record := f.input.target.pristine.Ask(ctx, c)
	f.Files = []string{name + ".toml", name + ".frame"}
	return errors.Join(os.WriteFile(f.Files[0], text.Bytes(), 0o644), os.WriteFile(f.Files[1], record.Frame, 0o644))
}

// kept is an input in a corpus.
type kept struct {
	File  string          `json:"file"` // of the case that it came from
	Case  string          `json:"case"`
	Facts author.Facts    `json:"facts"`
	Args  json.RawMessage `json:"args,omitempty"`
}

// Bounds of a corpus that is read.
const (
	maxKept     = 100_000
	maxKeptSize = 1 << 20
)

// loadCorpus reads the inputs of earlier runs, in the order of their names. It skips those whose case is gone, and other files.
func (s *session) loadCorpus() ([]input, error) {
	if s.config.Corpus == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(s.config.Corpus)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []input
	for _, e := range entries[:min(len(entries), maxKept)] {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxKeptSize || !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(s.config.Corpus, e.Name()))
		if err != nil {
			return nil, err
		}
		if in, ok := s.parseKept(text); ok {
			list = append(list, in)
		}
	}
	return list, nil
}

func (s *session) parseKept(text []byte) (input, bool) {
	var k kept
	if json.Unmarshal(text, &k) != nil {
		return input{}, false
	}
	i := slices.IndexFunc(s.cases, func(c input) bool { return c.Name == k.Case && c.File == k.File })
	k.Facts.Channel = ""
	if i < 0 || k.Facts.Settle() != nil || k.Facts.Attachments < 0 || k.Facts.Attachments > maxList {
		return input{}, false
	}
	c := s.cases[i].Case
	c.Ask = k.Facts
	c.Ask.Agents = s.agents
	if c.Kind == policy.KindTool {
		c.Args = k.Args
	}
	return newInput(c, s.cases[i].origin, s.cases[i].target), true
}

// saveCorpus adds the inputs of this run to the folder.
func (s *session) saveCorpus() error {
	if s.config.Corpus == "" {
		return nil
	}
	if err := os.MkdirAll(s.config.Corpus, 0o755); err != nil {
		return err
	}
	for _, in := range s.corpus[len(s.cases):] {
		text, err := json.Marshal(kept{in.origin.File, in.origin.Name, in.Ask, in.Args})
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		if err := os.WriteFile(filepath.Join(s.config.Corpus, hex.EncodeToString(sum[:8])+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
