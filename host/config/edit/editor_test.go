package edit

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flynnhost/flynn/host/config"
)

func onDisk(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func byHand(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Error(err)
	}
}

// running is the Editor of a flynn that runs; stage is asked before a configuration comes in force.
func running(t *testing.T, path string, stage func() error) *Editor {
	t.Helper()
	getenv := home(t)
	h, err := config.NewHolder(path, getenv, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	h.Subscribe(func(context.Context, *config.Config, *config.Config) (commit, rollback func(), err error) {
		return nil, nil, stage()
	})
	return InHost(h, EditorConfig{Getenv: getenv, Log: slog.New(slog.DiscardHandler)})
}

func profile(name string) func(*File, *config.Config) error {
	return func(f *File, _ *config.Config) error { return f.Set(name, "agent_configs", "main", "tool_profile") }
}

func TestEditIsInForceOrUndone(t *testing.T) {
	path := fileWith(t, whole, 0o600)
	var refused error
	e := running(t, path, func() error { return refused })
	var beside []string
	note := func(what string) func() error {
		return func() error { beside = append(beside, what); return nil }
	}
	change := func(f *File, c *config.Config) error {
		f.IfRefused(note("undone"))
		f.IfMade(note("made"))
		return profile("coding")(f, c)
	}
	refused = errors.New("no room")
	m, err := e.Edit(t.Context(), Author{}, change)
	var wrong *WrongError
	if !errors.As(err, &wrong) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no room") || onDisk(t, path) != whole || !slices.Equal(beside, []string{"undone"}) {
		t.Fatalf("%+v, %v, %v\n%s", m, err, beside, onDisk(t, path))
	}
	if _, err := e.Edit(t.Context(), Author{}, func(f *File, c *config.Config) error {
		return errors.Join(f.Set("nobody", "routing", "default_agent"))
	}); !errors.As(err, &wrong) || onDisk(t, path) != whole {
		t.Errorf("a wrong text: %v", err)
	}
	refused, beside = nil, nil
	if m, err = e.Edit(t.Context(), Author{}, change); err != nil || m.Generation != 2 || string(m.After) != onDisk(t, path) || !slices.Equal(beside, []string{"made"}) {
		t.Errorf("%+v, %v, %v", m, err, beside)
	}
	byHand(t, path, "no = [")
	var file *FileError
	if _, err := e.Edit(t.Context(), Author{}, profile("full")); !errors.As(err, &file) || onDisk(t, path) != "no = [" {
		t.Errorf("a text that is no TOML: %v", err)
	}
	if _, err := e.Rewrite(t.Context(), Author{}, func([]byte) ([]byte, error) { return []byte("a = [\n"), nil }); !errors.As(err, &wrong) {
		t.Errorf("rewritten as no TOML: %v", err)
	}
	if m, err := e.Rewrite(t.Context(), Author{}, func(before []byte) ([]byte, error) { return []byte(whole), nil }); err != nil || m.Generation != 3 || onDisk(t, path) != whole {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestByHandMeanwhile: what a person writes into the file is kept wherever it falls, and the edit says that it is not in force.
func TestByHandMeanwhile(t *testing.T) {
	theirs := whole + "# by hand\n"
	for name, when := range map[string]func(t *testing.T, path string) (e *Editor, change func(*File, *config.Config) error){
		"before it is written": func(t *testing.T, path string) (*Editor, func(*File, *config.Config) error) {
			return running(t, path, func() error { return nil }), func(f *File, c *config.Config) error {
				byHand(t, path, theirs)
				return profile("full")(f, c)
			}
		},
		"before it is written, when it is prepared": func(t *testing.T, path string) (*Editor, func(*File, *config.Config) error) {
			return running(t, path, func() error {
				byHand(t, path, theirs)
				return nil
			}), profile("full")
		},
		"before it is loaded": func(t *testing.T, path string) (*Editor, func(*File, *config.Config) error) {
			e := running(t, path, func() error { return nil })
			e.Put = nil // as the editor of a command
			reload := e.Reload
			e.Reload = func(ctx context.Context) (uint64, error) {
				byHand(t, path, theirs)
				return reload(ctx)
			}
			return e, profile("full")
		},
		"before it is undone": func(t *testing.T, path string) (*Editor, func(*File, *config.Config) error) {
			e := running(t, path, func() error {
				byHand(t, path, theirs)
				return errors.New("refused")
			})
			e.Put = nil // as the editor of a command
			return e, profile("full")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := fileWith(t, whole, 0o600)
			e, change := when(t, path)
			undone := false
			_, err := e.Edit(t.Context(), Author{}, func(f *File, c *config.Config) error {
				f.IfRefused(func() error { undone = true; return nil })
				return change(f, c)
			})
			if !errors.Is(err, ErrChanged) || !undone || onDisk(t, path) != theirs {
				t.Errorf("%v, %v\n%s", err, undone, onDisk(t, path))
			}
		})
	}
}

// TestOneEditAtATime has the editors of two processes edit a file: the second begins when the first is in force.
func TestOneEditAtATime(t *testing.T) {
	path := fileWith(t, whole, 0o600)
	var mu sync.Mutex
	var order []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	begun, second := make(chan struct{}), make(chan error)
	command := NewEditor(EditorConfig{Path: path, Getenv: home(t)})
	e := running(t, path, func() error {
		go func() {
			close(begun)
			_, err := command.Edit(t.Context(), Author{}, func(f *File, c *config.Config) error {
				note("second")
				return f.Set("x", "agent_configs", "main", "system_prompt")
			})
			second <- err
		}()
		<-begun
		note("first")
		return nil
	})
	if _, err := e.Edit(t.Context(), Author{}, profile("full")); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	if text := onDisk(t, path); !slices.Equal(order, []string{"first", "second"}) || !strings.Contains(text, `"full"`) || !strings.Contains(text, `"x"`) {
		t.Errorf("%v\n%s", order, text)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var file *FileError
	if err := e.alone(t.Context(), func() error {
		_, err := command.Edit(gone, Author{}, profile("minimal"))
		return err
	}); !errors.As(err, &file) {
		t.Errorf("an edit whose caller has gone: %v", err)
	}
}
