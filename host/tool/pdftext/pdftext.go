// Package pdftext reads the text of a PDF in a process of its own. A PDF may come from anywhere, and what it takes to read one is bounded by nothing in
// it: the process is ended when it takes too long or too much memory.
//
// Start with Read, which starts the process, and Serve, which is the process. The package does not judge the text.
package pdftext

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/ledongthuc/pdf"

	"github.com/flynnhost/flynn/sdk/cut"
)

// Bounds of a PDF.
const (
	MaxFile   = 16 << 20 // bytes
	MaxText   = 4 << 20  // bytes
	maxMemory = 256 << 20
	maxTime   = 10 * time.Second
)

// Why a PDF has no text.
var (
	ErrUnreadable = errors.New("the PDF cannot be read: it is damaged, or encrypted")
	ErrTooLarge   = fmt.Errorf("the PDF needs more than %d MiB of memory or %v to be read, and was refused", maxMemory>>20, maxTime)
	ErrNoText     = errors.New("the PDF has no text; its pages may be pictures")
)

// Exit codes of the process.
const (
	unreadable = 3
	tooLarge   = 4
)

// Read returns the text of a PDF, at most MaxText of it. command starts a process that calls Serve.
func Read(ctx context.Context, command []string, file []byte) (string, error) {
	timed, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	cmd := exec.CommandContext(timed, command[0], command[1:]...)
	cmd.Env = []string{"GOMAXPROCS=2"} // no secrets
	cmd.Stdin = bytes.NewReader(file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start the reader of PDFs: %w", err)
	}
	text, readErr := io.ReadAll(io.LimitReader(out, MaxText+1))
	if len(text) > MaxText {
		cancel()
	}
	err = errors.Join(readErr, cmd.Wait())
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case len(text) > MaxText, err == nil:
	case timed.Err() != nil, errors.As(err, &exit) && exit.ExitCode() == tooLarge:
		return "", ErrTooLarge
	default:
		return "", ErrUnreadable
	}
	clean := strings.TrimSpace(strings.ToValidUTF8(cut.Head(string(text), MaxText), "\uFFFD"))
	if clean == "" {
		return "", ErrNoText
	}
	return clean, nil
}

// Serve reads a PDF from in and writes its text to out. It returns the exit code of the process, or ends it.
func Serve(in io.Reader, out io.Writer) int {
	go watch()
	return read(in, out)
}

func read(in io.Reader, out io.Writer) (code int) {
	defer func() {
		if recover() != nil {
			code = unreadable
		}
	}()
	file, err := io.ReadAll(io.LimitReader(in, MaxFile+1))
	if err != nil || len(file) > MaxFile {
		return unreadable
	}
	doc, err := pdf.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return unreadable
	}
	for n := 1; n <= doc.NumPage(); n++ {
		text, err := doc.Page(n).GetPlainText(nil)
		if err != nil {
			text = "[this page cannot be read]"
		}
		if _, err := fmt.Fprintf(out, "%s\n\n", strings.TrimSpace(text)); err != nil {
			return 0 // Read has enough
		}
	}
	return 0
}

// watch ends the process when it has too much memory.
func watch() {
	memory := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(2 * time.Millisecond) {
		metrics.Read(memory)
		if memory[0].Value.Uint64()-memory[1].Value.Uint64() > maxMemory {
			os.Exit(tooLarge)
		}
	}
}
