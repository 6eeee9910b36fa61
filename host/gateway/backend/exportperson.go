package backend

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"mime"
	"time"

	"github.com/flynnhost/flynn/host/agent/memory"
	"github.com/flynnhost/flynn/host/agent/session"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/jsonform"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/usage"
)

// exported is person.json of an export.
type exported struct {
	Exported time.Time          `json:"exported"`
	Persons  []gateway.Person   `json:"persons"` // one for each id of the person
	Sessions []exportedSession  `json:"sessions"`
	Usage    []gateway.UsageSum `json:"usage"` // by day
	Files    []exportedFile     `json:"files"`
	Notes    []memory.Note      `json:"notes"`
}

type exportedSession struct {
	Key  message.SessionKey `json:"key"`
	File string             `json:"file"`
}

type exportedFile struct {
	Name string `json:"name"`
	Type string `json:"type"`
	File string `json:"file"`
}

// maxNotes bounds the notes of an export; agents keep fewer.
const maxNotes = 100_000

// Export implements gateway.People: person.json, and what it names. A zip file without its end is one that was cut off.
func (p People) Export(ctx context.Context, sender message.SenderKey, w io.Writer) error {
	index := exported{Exported: time.Now().UTC(), Sessions: []exportedSession{}, Files: []exportedFile{}, Usage: []gateway.UsageSum{}}
	all := p.Persons(sender)
	for _, id := range all {
		person, err := p.Person(ctx, id)
		if err != nil && id == sender {
			return err
		}
		if err == nil {
			index.Persons = append(index.Persons, person)
		}
		sums, err := p.Store.SumUsage(ctx, usage.ByDay, usage.Filter{Sender: id})
		if err != nil {
			return err
		}
		index.Usage = append(index.Usage, gateway.UsageSums(sums)...)
	}
	notes, err := p.Store.SearchNotes(ctx, memory.NoteQuery{Persons: memory.Scopes(all), Limit: maxNotes})
	if err != nil {
		return err
	}
	index.Notes = append([]memory.Note{}, notes...)
	keys, err := p.Store.SessionsOf(ctx, all...)
	if err != nil {
		return err
	}
	out := zip.NewWriter(w)
	for i, key := range keys {
		s := exportedSession{key, fmt.Sprintf("sessions/%04d.jsonl", i+1)}
		f, err := out.Create(s.File)
		if err == nil {
			err = session.Export(ctx, p.Store, key, index.Exported, f)
		}
		if err != nil {
			return err
		}
		index.Sessions = append(index.Sessions, s)
	}
	if index.Files, err = p.exportFiles(ctx, all, out); err != nil {
		return err
	}
	f, err := out.Create("person.json")
	if err != nil {
		return err
	}
	text, err := jsonform.Marshal(index)
	if err == nil {
		_, err = f.Write(append(text, '\n'))
	}
	if err != nil {
		return err
	}
	return out.Close()
}

// exportFiles writes the files that a person has sent. Their names in the export are their digests, because people choose names freely.
func (p People) exportFiles(ctx context.Context, all []message.SenderKey, out *zip.Writer) ([]exportedFile, error) {
	list, done := []exportedFile{}, map[string]bool{}
	for _, id := range all {
		for _, digest := range p.Media.Of(id) {
			if done[digest] {
				continue
			}
			done[digest] = true
			body, info, err := p.Media.Open(ctx, digest)
			if err != nil {
				continue // it has gone meanwhile
			}
			v := exportedFile{Name: info.Name, Type: info.Type(), File: "files/" + digest + extension(info.Type())}
			f, err := out.Create(v.File)
			if err == nil {
				_, err = io.Copy(f, body)
			}
			_ = body.Close()
			if err != nil {
				return nil, fmt.Errorf("export a file: %w", err)
			}
			list = append(list, v)
		}
	}
	return list, nil
}

func extension(kind string) string {
	if list, err := mime.ExtensionsByType(kind); err == nil && len(list) > 0 {
		return list[0]
	}
	return ""
}
