package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"
)

// maxFrame bounds one message of a server, in bytes.
const maxFrame = 16 << 20

// dialer is the way to the configured server.
func (s settings) dialer(log *slog.Logger) dialer {
	if s.URL != "" {
		return s.dialHTTP
	}
	if s.Socket != "" {
		return s.dialSocket
	}
	return func(context.Context) (mcp.Transport, func() error, error) { return s.start(log) }
}

// passedOn are the variables of this process that a server may see, besides those of the settings. The host has taken care that there is
// nothing secret among them.
var passedOn = []string{"PATH", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "SYSTEMROOT"}

// environment returns everything that the server's program finds in its environment.
func (s settings) environment(lookup func(string) (string, bool)) []string {
	all := map[string]string{}
	for _, name := range passedOn {
		if value, ok := lookup(name); ok {
			all[name] = value
		}
	}
	all["HOME"] = s.stateDir // package runners keep their caches there
	maps.Copy(all, s.Env)
	for name, from := range s.SecretVariables {
		all[name] = s.secrets[from]
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// endTime is how long a server has to end by itself when its input has ended.
const endTime = 3 * time.Second

// start starts the server's program. It stays in the process group of this plugin, which the host ends as one.
func (s settings) start(log *slog.Logger) (mcp.Transport, func() error, error) {
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Dir, cmd.Env = s.Dir, s.environment(os.LookupEnv)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	stderr, err3 := cmd.StderrPipe()
	if err := errors.Join(err1, err2, err3, cmd.Start()); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, exec.ErrNotFound) {
			err = fmt.Errorf("%w (a program that is not among the system's needs its folder under read of the instance)", err)
		}
		return nil, nil, fmt.Errorf("start the server: %w", err)
	}
	said := make(chan string, 1)
	go func() { said <- logLines(stderr, log) }() // ends with the program
	end := func() error {
		_ = in.Close()
		exited := make(chan error, 1)
		go func() { // ends with the program, at the latest when this process does
			last := <-said
			err := cmd.Wait()
			if last != "" {
				err = fmt.Errorf("it ended (%w); it wrote: %s%s", orFine(err), last, s.outOfSight())
			}
			exited <- err
		}()
		select {
		case err := <-exited:
			if err != nil {
				return fmt.Errorf("the server: %w", err)
			}
			return nil
		case <-time.After(endTime):
			return endless{fmt.Errorf("the server %s does not exit when its input ends", s.Command)}
		}
	}
	return &mcp.IOTransport{Reader: out, Writer: in, MaxLineLength: maxFrame}, end, nil
}

func orFine(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// Bounds of what a server writes to its standard error: longer lines are cut, faster ones counted and left out.
const (
	maxLine        = 2 << 10 // bytes
	linesPerSecond = 20
	linesAtOnce    = 100
)

// outOfSight names the first file of the server's command line that is not there for this plugin, whose jail the server shares: a program
// says of such a file that it does not exist.
func (s settings) outOfSight() string {
	for _, word := range append([]string{s.Command}, s.Args...) {
		if !filepath.IsAbs(word) {
			continue
		}
		if _, err := os.Stat(word); errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return fmt.Sprintf("; %s is hidden from it, or missing: if it is there, add read = [%q] to the instance", word, filepath.Dir(word))
		}
	}
	return ""
}

// failure matches the line in which Node, Python and similar programs name the error that ended them. Stack frames and the version follow.
var failure = regexp.MustCompile(`^(Uncaught )?[A-Za-z_.]*(Error|Exception)\b.*: `)

// aside reports whether a line belongs to the one before it, such as a stack frame.
func aside(line []byte) bool {
	return line[0] == ' ' || line[0] == '\t' || strings.Trim(string(line), "}^)];") == ""
}

// logLines passes lines on to the log until r ends, and returns the one that says most: the last that names a failure, else the last.
func logLines(r io.Reader, log *slog.Logger) (telling string) {
	limit := rate.NewLimiter(linesPerSecond, linesAtOnce)
	lines := bufio.NewReaderSize(r, maxLine)
	for left := 0; ; {
		line, more, err := lines.ReadLine()
		if text := strings.TrimSpace(strings.ToValidUTF8(string(line), "\uFFFD")); text != "" {
			if failure.MatchString(text) || !failure.MatchString(telling) && !aside(line) {
				telling = text
			}
			switch {
			case aside(line):
				log.Debug("the server says", "text", text)
			case !limit.Allow():
				left++
			case left > 0:
				log.Warn("the server writes too much", "lines_left_out", left)
				left = 0
				fallthrough
			default:
				log.Info("the server says", "text", text)
			}
		}
		for more && err == nil { // the rest of a line that is too long
			_, more, err = lines.ReadLine()
		}
		if err != nil {
			return telling
		}
	}
}
