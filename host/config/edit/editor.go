package edit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/internal/filelock"
)

// Author is who makes an edit, and what it is for people, such as "add channel tg".
type Author struct{ By, What string }

// Recorder keeps who edited the file.
type Recorder interface {
	Edited(ctx context.Context, a Author, generation uint64) error
}

// EditorConfig configures an Editor.
type EditorConfig struct {
	Path   string
	Getenv func(string) string
	// Checks are those of flynn serve.
	Checks []config.Check
	// Reload has the flynn that runs on the file take it up; nil while none runs.
	Reload Reload
	// Put puts a text in force that write writes; nil outside of the flynn that runs, which has Reload for it.
	Put func(ctx context.Context, text []byte, write func() error) error
	// Restartable returns an error for a text that must not come in force by a restart; it may be nil.
	Restartable func(ctx context.Context, text []byte) error
	// InForce is the configuration in force; nil outside of the flynn that runs. With it, texts that were replaced are kept.
	InForce func() *config.Config
	// Restart begins to start the running flynn again, with the file. It brings back the text before if that fails. Nil outside of it.
	Restart func(edited, before []byte) error
	// Recorder may be nil.
	Recorder Recorder
	Log      *slog.Logger
}

// Editor edits the flynn.toml of one host. The rooms of a running flynn share one, and a command has its own; all of them make one edit at a
// time, because they hold the lock of the file's folder from the reading of the file until the edit is in force or undone.
//
// After an edit that returned no error the file is written and in force. After one that did, the file is as before, unless the error says that
// somebody else has changed it meanwhile.
type Editor struct {
	EditorConfig
	turn chan struct{} // of this process
}

// NewEditor returns an Editor.
func NewEditor(c EditorConfig) *Editor { return &Editor{c, make(chan struct{}, 1)} }

// InHost returns the Editor of the flynn that runs with what a holder holds. All that c says of the running flynn is set here, but
// for Restart.
func InHost(h *config.Holder, c EditorConfig) *Editor {
	c.Path, c.InForce, c.Put, c.Restartable = h.Path(), h.Current, h.Put, h.Restartable
	c.Reload = func(ctx context.Context) (uint64, error) {
		err := h.Reload(ctx)
		return h.Current().Generation, err
	}
	return NewEditor(c)
}

// Made is an edit that is in force, or written if no flynn runs.
type Made struct {
	Generation    uint64 // 0 if no flynn runs
	Before, After []byte
	Hosts         []string // that agreed on it, if they share a store
}

// WrongError is the error of an edit after which the file would not load, or which the running flynn refuses. Err may quote Text.
type WrongError struct {
	Err  error
	Text []byte
}

func (e *WrongError) Error() string { return e.Err.Error() }
func (e *WrongError) Unwrap() error { return e.Err }

// FileError is the error of an edit whose file cannot be read or written, or has been changed by somebody else.
type FileError struct{ Err error }

func (e *FileError) Error() string { return e.Err.Error() }
func (e *FileError) Unwrap() error { return e.Err }

// lockWait is how long an edit waits for the ones before it.
const lockWait = 2 * time.Minute

// alone calls do while nobody else edits the file.
func (e *Editor) alone(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return &FileError{fmt.Errorf("edit %s: wait for the edit before: %w", e.Path, ctx.Err())}
	}
	release, err := filelock.WaitDir(ctx, filepath.Dir(e.Path))
	if err != nil {
		return &FileError{fmt.Errorf("edit %s: %w", e.Path, err)}
	}
	defer release()
	return do()
}

// Edit has change edit the file, of which c is the meaning, and puts it in force.
func (e *Editor) Edit(ctx context.Context, a Author, change func(f *File, c *config.Config) error) (m Made, err error) {
	err = e.alone(ctx, func() error {
		f, err := Open(e.Path)
		if err != nil {
			return &FileError{err}
		}
		c, err := f.Load(e.Getenv, e.Checks...)
		if err != nil {
			return &WrongError{fmt.Errorf("%s has to be corrected first: %w", e.Path, err), f.Before()}
		}
		if err = change(f, c); err == nil {
			m, err = e.apply(ctx, a, f)
		}
		return f.end(err)
	})
	return m, err
}

// Rewrite has change return the whole text of the file, and puts it in force. The text before need not be TOML.
func (e *Editor) Rewrite(ctx context.Context, a Author, change func(before []byte) ([]byte, error)) (Made, error) {
	return e.rewrite(ctx, a, change, e.apply)
}

// RewriteAndRestart is Rewrite for what comes in force by a restart of the running flynn. It returns when that has begun.
func (e *Editor) RewriteAndRestart(ctx context.Context, a Author, change func(before []byte) ([]byte, error)) (Made, error) {
	return e.rewrite(ctx, a, change, e.applyAndRestart)
}

func (e *Editor) rewrite(ctx context.Context, a Author, change func(before []byte) ([]byte, error), apply func(context.Context, Author, *File) (Made, error)) (m Made, err error) {
	err = e.alone(ctx, func() error {
		f, err := openAny(e.Path)
		if err != nil {
			return &FileError{err}
		}
		text, err := change(f.before)
		if err != nil {
			return err
		}
		if err := f.Replace(text); err != nil {
			if _, lines := config.LoadText(e.Path, text, e.Getenv); lines != nil {
				err = lines // which line is wrong
			}
			return &WrongError{err, text}
		}
		m, err = apply(ctx, a, f)
		return err
	})
	return m, err
}

// Apply puts in force what a command has made of a file. It fails if the file has changed since it was opened.
func (e *Editor) Apply(ctx context.Context, a Author, f *File) (m Made, err error) {
	err = e.alone(ctx, func() error {
		m, err = e.apply(ctx, a, f)
		return f.end(err)
	})
	return m, err
}

// Reloading has do change what the file refers to, such as a secret, and reload it. reload is nil while no flynn runs.
func (e *Editor) Reloading(ctx context.Context, a Author, do func(reload Reload) (generation uint64, err error)) (generation uint64, err error) {
	err = e.alone(ctx, func() error {
		if generation, err = do(e.Reload); err == nil && generation > 0 {
			e.Record(ctx, a, generation)
		}
		return err
	})
	return generation, err
}

// apply writes the file and has it taken up. Once it is written the end of ctx stops nothing: half of an edit is none.
func (e *Editor) apply(ctx context.Context, a Author, f *File) (m Made, err error) {
	m = e.made(f)
	if f.info != nil && f.Diff() == "" {
		return m, nil
	}
	ctx = context.WithoutCancel(ctx)
	if e.Put != nil {
		return e.put(ctx, a, f, m)
	}
	if err := e.save(f); err != nil || e.Reload == nil {
		return m, err
	}
	m.Generation, err = e.Reload(ctx)
	if err == nil {
		err = e.taken(f)
	}
	if err != nil {
		return m, e.undo(f, err)
	}
	e.Record(ctx, a, m.Generation)
	return m, nil
}

// put has the text taken up, which writes the file when nothing can prevent it any more.
func (e *Editor) put(ctx context.Context, a Author, f *File, m Made) (Made, error) {
	if err := e.check(f); err != nil {
		return m, &WrongError{err, f.Bytes()}
	}
	if err := f.writable(); err != nil { // before other hosts agree on it
		return m, asFile(err)
	}
	if err := e.Put(ctx, f.Bytes(), func() error { return e.write(f) }); err != nil {
		if errors.As(err, new(*FileError)) {
			return m, err
		}
		return m, &WrongError{fmt.Errorf("%s is as before, because %w: %w", e.Path, ErrRefused, err), f.Bytes()}
	}
	now := e.InForce()
	m.Generation, m.Hosts = now.Generation, now.Hosts
	e.Record(ctx, a, m.Generation)
	return m, nil
}

// Carry has put put in force what a change of the shared part makes of the file; a nil before is what the file has.
func (e *Editor) Carry(ctx context.Context, before *config.SharedPart, after config.SharedPart, put func(text []byte, write func() error) error) error {
	return e.alone(ctx, func() error {
		f, err := Open(e.Path)
		if err != nil {
			return &FileError{err}
		}
		if before == nil {
			own, err := config.SharedPartOf(f.before)
			if err != nil {
				return err
			}
			before = &own
		}
		if err := f.Carry(*before, after); err != nil {
			return fmt.Errorf("edit %s: %w", e.Path, err)
		}
		if f.Diff() == "" {
			return put(f.Bytes(), func() error { return nil })
		}
		if err := f.writable(); err != nil {
			return asFile(err)
		}
		return put(f.Bytes(), func() error { return e.write(f) })
	})
}

// applyAndRestart writes the file and begins the restart.
func (e *Editor) applyAndRestart(ctx context.Context, a Author, f *File) (Made, error) {
	m := e.made(f)
	if e.Restartable != nil {
		if err := e.Restartable(ctx, f.Bytes()); err != nil {
			return m, &WrongError{err, f.Bytes()}
		}
	}
	if err := e.save(f); err != nil {
		return m, err
	}
	if err := e.Restart(m.After, m.Before); err != nil {
		return m, e.undo(f, err)
	}
	e.Record(context.WithoutCancel(ctx), a, m.Generation)
	return m, nil
}

// made is an edit of f that is about to be made.
func (e *Editor) made(f *File) Made {
	m := Made{Before: f.before, After: f.Bytes()}
	if e.InForce != nil {
		m.Generation = e.InForce().Generation
	}
	return m
}

// save checks a text, and writes it.
func (e *Editor) save(f *File) error {
	if err := e.check(f); err != nil {
		return &WrongError{err, f.Bytes()}
	}
	return e.write(f)
}

// write writes a text that was checked.
func (e *Editor) write(f *File) error {
	if err := e.keep(f); err != nil {
		return asFile(err)
	}
	return asFile(f.Save(e.Getenv, e.Checks...))
}

// asFile makes errors of a file a FileError.
func asFile(err error) error {
	if err == nil {
		return nil
	}
	return &FileError{err}
}

// check checks the text as the flynn that it is for does: in the running one the secrets have to be there too.
func (e *Editor) check(f *File) (err error) {
	if e.InForce == nil {
		_, err = f.Load(e.Getenv, e.Checks...)
	} else {
		_, err = config.LoadAs(e.Path, f.Bytes(), e.Getenv, e.Checks...)
	}
	return err
}

// keep keeps a text that never was in force, and would be lost.
func (e *Editor) keep(f *File) error {
	if e.InForce == nil || config.DigestOf(f.before) == e.InForce().Digest {
		return nil
	}
	return config.HistoryOf(e.InForce()).Keep(f.before, true)
}

// taken returns an error if something else than the text came in force: somebody has replaced the file meanwhile.
func (e *Editor) taken(f *File) error {
	if e.InForce != nil && e.InForce().Digest != config.DigestOf(f.before) {
		return ErrChanged
	}
	return f.unchanged()
}

func (e *Editor) undo(f *File, err error) error {
	if errors.Is(err, ErrChanged) {
		return &FileError{fmt.Errorf("edit %s: the edit is gone, because somebody else has replaced the file: %w", e.Path, err)}
	}
	text := f.Bytes()
	if undone := f.Undo(); undone != nil {
		return &WrongError{fmt.Errorf("%w (%w), and the file could not be brought back: %w", ErrRefused, err, undone), text}
	}
	return &WrongError{fmt.Errorf("%s is as before, because %w: %w", e.Path, ErrRefused, err), text}
}

// Record keeps who made an edit that is in force already: a failure is only logged.
func (e *Editor) Record(ctx context.Context, a Author, generation uint64) {
	if e.Log != nil {
		e.Log.Info("configuration edited", "by", a.By, "what", a.What, "generation", generation)
	}
	if e.Recorder == nil {
		return
	}
	if err := e.Recorder.Edited(ctx, a, generation); err != nil && e.Log != nil {
		e.Log.Error("cannot record who edited the configuration", "by", a.By, "error", err)
	}
}
