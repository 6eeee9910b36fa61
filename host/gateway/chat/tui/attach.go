package tui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/terminal"
	"github.com/flynnhost/flynn/host/message"
)

// uploadTimeout bounds an upload, and maxOffered the names that a completion shows.
const (
	uploadTimeout = 25 * time.Second
	maxOffered    = 40
)

// uploadedMsg is a file that the host keeps, or why it does not.
type uploadedMsg struct {
	file gateway.File
	err  error
}

// attach sends a file to the host, for the next message.
func (m *model) attach(path string) tea.Cmd {
	if path == "" {
		m.files = nil
		m.note = "no file is attached now; /attach PATH attaches one"
		return nil
	}
	if len(m.files)+m.uploads >= message.MaxAttachments {
		m.note = fmt.Sprintf("a message may have %d files", message.MaxAttachments)
		return nil
	}
	m.uploads++
	n := m.net
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(n.ctx, uploadTimeout)
		defer cancel()
		file, err := n.upload(ctx, path)
		return uploadedMsg{file: file, err: err}
	}
}

func (n *network) upload(ctx context.Context, path string) (gateway.File, error) {
	var kept gateway.File
	name := expand(path)
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return kept, fmt.Errorf("attach: %w", err)
	case !info.Mode().IsRegular():
		return kept, fmt.Errorf("attach %s: it is no file", path)
	case info.Size() > gateway.MaxFile:
		return kept, fmt.Errorf("attach %s: it has %d bytes, more than %d", path, info.Size(), gateway.MaxFile)
	}
	file, err := os.Open(name)
	if err != nil {
		return kept, fmt.Errorf("attach: %w", err)
	}
	defer file.Close()
	query := url.Values{"channel": {gateway.ChannelTerminal}, "name": {filepath.Base(name)}}
	err = n.host.Send(ctx, http.MethodPost, gateway.FilesPath+"?"+query.Encode(), "application/octet-stream", file, &kept)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("attach %s: the host did not take it within %s", path, uploadTimeout)
	}
	return kept, err
}

func (m *model) uploaded(msg uploadedMsg) {
	m.uploads--
	if msg.err != nil {
		m.note = msg.err.Error()
		return
	}
	m.files = append(m.files, msg.file)
}

// expand turns ~ into the home folder.
func expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		if home, err := os.UserHomeDir(); err == nil {
			return home + rest
		}
	}
	return path
}

// completedMsg is the completion of a path that was in the input.
type completedMsg struct {
	input, path string
	offered     []string
}

// complete completes a command, or the path behind /attach.
func (m *model) complete() tea.Cmd {
	value := m.input.area.Value()
	if path, ok := strings.CutPrefix(value, "/attach "); ok {
		return func() tea.Msg {
			full, offered := completePath(path)
			return completedMsg{input: value, path: full, offered: offered}
		}
	}
	if strings.HasPrefix(value, "/") && !strings.ContainsAny(value, " \n") {
		text, offered := extend(value, locals[:])
		m.input.set(text)
		m.offer(offered)
	}
	return nil
}

func (m *model) completed(msg completedMsg) {
	if m.input.area.Value() == msg.input {
		m.input.set("/attach " + msg.path)
		m.offer(msg.offered)
	}
}

func (m *model) offer(names []string) {
	if len(names) > 1 {
		m.note = strings.Join(names, "  ")
	}
}

// completePath extends a path as far as it is certain, and returns the names that it may go on with. Names that cannot be
// shown as they are are left out.
func completePath(path string) (full string, offered []string) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(expand(dir + "."))
	if dir != "" && err != nil {
		entries, err = os.ReadDir(expand(dir))
	}
	if err != nil {
		return path, nil
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		if shown := terminal.Reveal(name) == name; shown && (!strings.HasPrefix(name, ".") || strings.HasPrefix(base, ".")) {
			names = append(names, name)
		}
	}
	text, offered := extend(base, names)
	return dir + text, offered
}

// extend returns the longest beginning that all names with a prefix share, and those names.
func extend(prefix string, names []string) (string, []string) {
	var fits []string
	for _, n := range names {
		if strings.HasPrefix(n, prefix) {
			fits = append(fits, n)
		}
	}
	if len(fits) == 0 {
		return prefix, nil
	}
	slices.Sort(fits)
	first, last := []rune(fits[0]), []rune(fits[len(fits)-1])
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	return string(first[:n]), fits[:min(len(fits), maxOffered)]
}
