package plugin

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadLines(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"lines":          {"a\nb\r\n\nc", []string{"a", "b", "c"}},
		"nothing":        {"", nil},
		"invalid":        {"a\xffb\n", []string{"a\uFFFDb"}},
		"long line":      {strings.Repeat("x", 3*maxLine) + "\nnext\n", []string{strings.Repeat("x", maxLine), "next"}},
		"long, unended":  {strings.Repeat("x", 2*maxLine+1), []string{strings.Repeat("x", maxLine)}},
		"exactly a line": {strings.Repeat("x", maxLine-1) + "\nnext\n", []string{strings.Repeat("x", maxLine-1), "next"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			readLines(strings.NewReader(c.in), func(line string) { got = append(got, line) })
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%.300s", diff)
			}
		})
	}
}

func TestLogIsRateLimitedBySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := newOutput(slog.New(slog.NewTextHandler(&log, nil)), nil)
		flood := strings.Repeat("line\n", linesPerSec+50)
		o.stderr(strings.NewReader(flood))
		time.Sleep(time.Second)
		o.stderr(strings.NewReader("after\n"))
		if n := strings.Count(log.String(), "msg=line"); n != linesPerSec {
			t.Errorf("%d lines were logged in one second, want %d", n, linesPerSec)
		}
		if !strings.Contains(log.String(), "dropped_lines=50") || !strings.Contains(log.String(), "msg=after") {
			t.Errorf("the log ends with %.300s", log.String()[max(0, log.Len()-300):])
		}
	})
}

func TestRecords(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"with level":     {`{"@level":"warn","@message":"slow","ms":12,"who":"ann"}`, "level=WARN msg=slow fields.ms=12 fields.who=ann"},
		"odd level":      {`{"@level":"loud","@message":"x"}`, "level=INFO msg=x"},
		"odd message":    {`{"@level":"warn","@message":{}}`, `level=INFO msg="{\"@level\":\"warn\",\"@message\":{}}"`},
		"other JSON":     {`{"msg":"x"}`, `level=INFO msg="{\"msg\":\"x\"}"`},
		"plain":          {"hello", "level=INFO msg=hello"},
		"panic":          {"panic: oh no", `level=ERROR msg="panic: oh no"`},
		"secret":         {`{"@level":"info","@message":"as t0ken!","q":"t0ken!"}`, `level=INFO msg="as [redacted]" fields.q=[redacted]`},
		"escaped secret": {`{"@level":"info","@message":"x","q":"say \u0022hi\u0022"}`, "level=INFO msg=x fields.q=[redacted]"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			o := newOutput(slog.New(slog.NewTextHandler(&log, nil)), map[string]string{"a": "t0ken!", "b": `say "hi"`, "c": "x"})
			o.stderr(strings.NewReader(c.line + "\n"))
			_, got, _ := strings.Cut(strings.TrimSpace(log.String()), " ")
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
