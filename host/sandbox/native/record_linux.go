package native

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// record is what is kept of a sandbox, so that a later host finds it.
type record struct {
	Name    string
	Labels  map[string]string
	Created time.Time
	PID     int    // of its first process, as the host sees it; 0 before the start
	Began   int64  // when that process started, so that another one with its id is not taken for it
	Groups  string // the name of its control groups; "" for its id
}

// runs records the process of a sandbox.
func (r *record) runs(l *life) { r.PID, r.Began, r.Groups = l.pid, l.began, l.groups }

const recordName = "sandbox.json"

// valid returns an error if an id cannot be the name of a folder.
func valid(id string) error {
	if !filepath.IsLocal(id) || filepath.Base(id) != id {
		return fmt.Errorf("keep a sandbox: %q is not a name", id)
	}
	return nil
}

// write replaces a record as a whole.
func (d *Driver) write(id string, r record) error {
	if err := os.MkdirAll(filepath.Join(d.folder, id), 0o700); err != nil {
		return fmt.Errorf("keep a sandbox: %w", err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	name := filepath.Join(d.folder, id, recordName)
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return fmt.Errorf("keep a sandbox: %w", err)
	}
	return os.Rename(name+".new", name)
}

func (d *Driver) read(id string) (r record, err error) {
	text, err := os.ReadFile(filepath.Join(d.folder, id, recordName))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("find a sandbox: %w", err)
	}
	return r, nil
}

// records returns all records. A folder whose record was never written, or was cut, has no process.
func (d *Driver) records() (map[string]record, error) {
	entries, err := os.ReadDir(d.folder)
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	all := make(map[string]record)
	for _, e := range entries {
		if r, err := d.read(e.Name()); err == nil {
			all[e.Name()] = r
		}
	}
	return all, nil
}

// idOf returns the id of a sandbox that has this id or name, or "".
func (d *Driver) idOf(idOrName string) string {
	d.mu.Lock()
	for id, w := range d.wishes {
		if id == idOrName || w.Name == idOrName {
			d.mu.Unlock()
			return id
		}
	}
	d.mu.Unlock()
	records, _ := d.records()
	if _, ok := records[idOrName]; ok {
		return idOrName
	}
	for id, r := range records {
		if r.Name == idOrName {
			return id
		}
	}
	return ""
}

// erase removes a record, with the folder that earlier versions mounted a view on.
func (d *Driver) erase(id string) error {
	folder := filepath.Join(d.folder, id)
	var all error
	for _, name := range []string{filepath.Join(folder, recordName), filepath.Join(folder, "root"), folder} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}
