package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flynnhost/flynn/host/internal/durable"
)

// maxHistory is the number of texts that are kept.
const maxHistory = 50

// History is a folder with the last texts of a flynn.toml, each in a file for its owner alone. Like the file, they may hold what people
// wrote into comments.
type History struct{ dir string }

// HistoryOf returns the history of a configuration, which lies in its store. No sandbox and no plugin sees that.
func HistoryOf(c *Config) History { return History{filepath.Join(c.Store.Dir, "configuration")} }

// Former is a text in a history.
type Former struct {
	ID    string
	Since time.Time // when it came in force, or was replaced if it never was
	Bytes int64
	// Refused is true for a text that never was in force.
	Refused bool
	digest  string // the beginning of it
}

// Is reports whether this is the text with a digest, as Config.Digest has it.
func (f Former) Is(digest string) bool { return strings.HasPrefix(digest, f.digest) }

const (
	historyTime   = "20060102T150405.000000000Z"
	historyDigest = 16 // letters of a digest in a name
	refusedSuffix = "-refused"
)

var historyID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]{8}T[0-9]{6}\.[0-9]{9}Z)-([0-9a-f]{16})(` + refusedSuffix + `)?$`)
})

// List returns the texts, the latest first.
func (h History) List() ([]Former, error) {
	entries, err := os.ReadDir(h.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list former configurations: %w", err)
	}
	var out []Former
	for _, e := range slices.Backward(entries) { // by name, and so by time
		id, _ := strings.CutSuffix(e.Name(), ".toml")
		m := historyID().FindStringSubmatch(id)
		if m == nil {
			continue
		}
		since, err := time.Parse(historyTime, m[1])
		info, infoErr := e.Info()
		if err != nil || infoErr != nil || !info.Mode().IsRegular() {
			continue
		}
		out = append(out, Former{ID: id, Since: since, Bytes: info.Size(), digest: m[2], Refused: m[3] != ""})
	}
	return out, nil
}

// Read returns a text; fs.ErrNotExist if there is none with that id.
func (h History) Read(id string) ([]byte, error) {
	if !historyID().MatchString(id) {
		return nil, fmt.Errorf("read the former configuration %q: %w", id, fs.ErrNotExist)
	}
	text, err := readFile(filepath.Join(h.dir, id+".toml"))
	if err != nil {
		return nil, fmt.Errorf("read the former configuration %s: %w", id, err)
	}
	return text, nil
}

// Keep adds a text, unless it is the latest already, and removes what is too old.
func (h History) Keep(text []byte, refused bool) error {
	all, err := h.List()
	if err != nil {
		return err
	}
	sum := digest(text)
	if len(all) > 0 && all[0].Is(sum) {
		return nil
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of former configurations: %w", err)
	}
	now := time.Now().UTC()
	if len(all) > 0 && !now.After(all[0].Since) {
		now = all[0].Since.Add(time.Nanosecond) // the clock went back, and the latest must stay the latest
	}
	name := now.Format(historyTime) + "-" + sum[:historyDigest]
	if refused {
		name += refusedSuffix
	}
	if err := durable.WriteFile(filepath.Join(h.dir, name+".toml"), text, 0o600); err != nil {
		return fmt.Errorf("keep the configuration: %w", err)
	}
	for _, old := range all[min(len(all), maxHistory-1):] {
		if err := os.Remove(filepath.Join(h.dir, old.ID+".toml")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a former configuration: %w", err)
		}
	}
	return nil
}
