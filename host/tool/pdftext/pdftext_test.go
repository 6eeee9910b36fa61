package pdftext

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// serving is set in the environment of the process that reads.
const serving = "serve-pdf"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == serving {
		os.Exit(Serve(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func command(t *testing.T) []string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{program, serving}
}

// document makes a PDF of pages with these contents, compressed, and of further objects, the first with the number 4+2*len(pages).
func document(pages []string, more ...string) []byte {
	var b bytes.Buffer
	var at []int
	b.WriteString("%PDF-1.4\n")
	object := func(text string) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(at), text)
	}
	var kids []string
	for i := range pages {
		kids = append(kids, fmt.Sprintf("%d 0 R", 4+2*i))
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object(fmt.Sprintf("<< /Type /Pages /Count %d /Kids [%s] >>", len(pages), strings.Join(kids, " ")))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	for i, text := range pages {
		var z bytes.Buffer
		w := must(zlib.NewWriterLevel(&z, zlib.BestSpeed))
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> >> >>", 5+2*i))
		object(fmt.Sprintf("<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream", z.Len(), z.String()))
	}
	for _, text := range more {
		object(text)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, start)
	return b.Bytes()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func says(text string) string { return "BT /F1 12 Tf 72 720 Td (" + text + ") Tj ET" }

func TestRead(t *testing.T) {
	text, err := Read(t.Context(), command(t), document([]string{says("Hello there"), says("Caf\xe9 on page two")}))
	if err != nil || !strings.Contains(text, "Hello there") || !strings.Contains(text, "Café on page two") || strings.Index(text, "two") < strings.Index(text, "Hello") {
		t.Errorf("%q, %v", text, err)
	}
}

// TestHostileFiles checks that each is refused in time, and that the process of the host has no part in it.
func TestHostileFiles(t *testing.T) {
	sound := document([]string{says("Hello there")})
	for _, c := range []struct {
		name string
		file []byte
		want error
	}{
		{"empty", nil, ErrUnreadable},
		{"no PDF", []byte("<html>"), ErrUnreadable},
		{"cut off", sound[:len(sound)/2], ErrUnreadable},
		{"no text", document([]string{"q Q"}), ErrNoText},
		{"a bomb", document([]string{says(strings.Repeat("x", 300<<20))}), ErrTooLarge},
		{"a bomb of operators", document([]string{"BT /F1 12 Tf " + strings.Repeat("() Tj ", 100<<20/6)}), nil},
		{"pages in a ring", bytes.Replace(sound, []byte("/Kids [4 0 R]"), []byte("/Kids [2 0 R]"), 1), nil},
		{"a length of its own", bytes.Replace(sound, []byte("/Count 1"), []byte("/Count 9"), 1), nil},
		{"a length without an end", bytes.Replace(sound, []byte("/Size 6"), []byte("/Size 999999999999"), 1), nil},
		{"deep", bytes.Replace(sound, []byte("/Count 1"), []byte("/X "+strings.Repeat("[", 1<<20)), 1), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			text, err := Read(t.Context(), command(t), c.file)
			switch {
			case c.want != nil && !errors.Is(err, c.want):
				t.Errorf("%.40q, %v, want %v", text, err, c.want)
			case c.want == nil && err != nil && !errors.Is(err, ErrUnreadable) && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrNoText):
				t.Errorf("%v is of this package's own", err)
			}
			if took := time.Since(began); took > maxTime+20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestReadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, command(t), document([]string{says("Hello")})); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// FuzzServe looks for PDFs that end the reader in another way than by its exit codes.
func FuzzServe(f *testing.F) {
	f.Add(document([]string{says("Hello there")}))
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) > 1<<16 {
			t.Skip()
		}
		done := make(chan int, 1)
		go func() { done <- read(bytes.NewReader(file), new(bytes.Buffer)) }()
		select {
		case code := <-done:
			if code != 0 && code != unreadable {
				t.Fatalf("exit code %d", code)
			}
		case <-time.After(5 * time.Second): // Read ends it
		}
	})
}
