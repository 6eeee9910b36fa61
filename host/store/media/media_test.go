package media

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/flynnhost/flynn/host/message"
)

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(t testing.TB, c Config) *Store {
	t.Helper()
	if c.Dir == "" {
		c.Dir = filepath.Join(t.TempDir(), "media")
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t testing.TB, s *Store, h Head, body string) Info {
	t.Helper()
	info, err := s.Put(context.Background(), h, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func read(s *Store, digest string) (string, Info, error) {
	r, info, err := s.Open(context.Background(), digest)
	if err != nil {
		return "", info, err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return string(text), info, err
}

func digestOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

const png = "\x89PNG\r\n\x1a\n and so on"

func TestPutAndOpen(t *testing.T) {
	s := open(t, Config{})
	for _, c := range []struct {
		name     string
		head     Head
		body     string
		wantType string
		wantName string
	}{
		{"nothing is claimed", Head{}, "just text", "text/plain; charset=utf-8", ""},
		{"the size is known", Head{Size: 9}, "just text", "text/plain; charset=utf-8", ""},
		{"empty", Head{}, "", "text/plain", ""},
		{"the claim is true", Head{Type: "image/png", Name: "a.png"}, png, "image/png", "a.png"},
		{"a web page that claims to be a picture", Head{Type: "image/png"}, "<!DOCTYPE html><html><script>x</script></html>", "text/html; charset=utf-8", ""},
		{"a picture that claims to be a web page", Head{Type: "text/html"}, png, "image/png", ""},
		{"a type that the detector does not know, of text", Head{Type: "text/x-flynn"}, "bla", "text/x-flynn", ""},
		{"the same of bytes", Head{Type: "application/x-flynn"}, "\x00\x01\x02\x03", "application/x-flynn", ""},
		{"the same of a picture", Head{Type: "application/x-flynn"}, png + "2", "image/png", ""},
		{"the claim is no type", Head{Type: "no type\r\nat all"}, png + "3", "image/png", ""},
		{"more than the detector looks at", Head{}, strings.Repeat("long ", 100_000), "text/plain; charset=utf-8", ""},
		{"a name that is a path", Head{Name: "../../etc/passwd"}, "x", "text/plain; charset=utf-8", "passwd"},
		{"a name that is a path elsewhere", Head{Name: `C:\windows\a.txt`}, "x", "text/plain; charset=utf-8", "a.txt"},
		{"a name with control characters", Head{Name: "a\x00\n\u202egpj.exe"}, "x", "text/plain; charset=utf-8", "agpj.exe"},
		{"a name of dots", Head{Name: "../.."}, "x", "text/plain; charset=utf-8", ""},
		{"a long name", Head{Name: strings.Repeat("ä", 300) + ".pdf"}, "x", "text/plain; charset=utf-8", strings.Repeat("ä", 98) + ".pdf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			info := put(t, s, c.head, c.body)
			body, again, err := read(s, digestOf(c.body))
			if err != nil || body != c.body {
				t.Fatalf("read %.40q (%v)", body, err)
			}
			again.Put = info.Put // file systems keep less of it
			if info != again {
				t.Errorf("put said %+v, open says %+v", info, again)
			}
			if info.Type() != c.wantType || info.Name != c.wantName || info.Size != int64(len(c.body)) {
				t.Errorf("got %+v of type %s", info, info.Type())
			}
		})
	}
}

func TestPutRefuses(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		head Head
		body io.Reader
		want error
	}{
		{"more than it says", Head{Size: 3}, strings.NewReader("four"), ErrSize},
		{"less than it says", Head{Size: 5}, strings.NewReader("four"), ErrSize},
		{"a negative size", Head{Size: -1}, strings.NewReader("four"), ErrSize},
		{"more than is allowed, and it says so", Head{Size: 1 << 40}, strings.NewReader("four"), ErrTooLarge},
		{"more than is allowed, and it does not say so", Head{}, io.LimitReader(zeros{}, 1<<20+1), ErrTooLarge},
		{"without an end", Head{}, zeros{}, ErrTooLarge},
		{"broken on the way", Head{}, io.MultiReader(strings.NewReader("four"), iotest.ErrReader(broken)), broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, Config{MaxObject: 1 << 20})
			if _, err := s.Put(context.Background(), c.head, c.body); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if left := files(t, s); len(left) != 0 || s.used != 0 || len(s.entries) != 0 {
				t.Errorf("left: %v, %d bytes, %d entries", left, s.used, len(s.entries))
			}
		})
	}
	t.Run("nobody waits any more", func(t *testing.T) {
		s := open(t, Config{})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := s.Put(ctx, Head{}, zeros{}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// files are the files of the store, relative to it.
func files(t testing.TB, s *Store) (all []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(s.config.Dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOpenRefuses(t *testing.T) {
	s := open(t, Config{})
	put(t, s, Head{}, "here")
	if err := os.WriteFile(filepath.Join(s.config.Dir, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{"", "x", digestOf("not here"), strings.ToUpper(digestOf("here")), "../secret", strings.Repeat("../../", 20) + "abcd",
		digestOf("here") + ".json", strings.Repeat("g", 64), strings.Repeat("é", 32)} {
		if _, _, err := s.Open(context.Background(), digest); !errors.Is(err, ErrNotFound) {
			t.Errorf("open %q: %v", digest, err)
		}
		if _, err := s.Touch(context.Background(), digest); !errors.Is(err, ErrNotFound) {
			t.Errorf("touch %q: %v", digest, err)
		}
	}
}

func TestSpoiledMedia(t *testing.T) {
	s := open(t, Config{})
	good := put(t, s, Head{Name: "a"}, "as it was put")
	if err := os.WriteFile(s.path(good.Digest), []byte("as it was not"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := read(s, good.Digest); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("got %v", err)
	}
	if _, _, err := read(s, good.Digest); !errors.Is(err, ErrNotFound) || s.used != 0 {
		t.Fatalf("it is still there: %v, %d bytes", err, s.used)
	}
	put(t, s, Head{}, "as it was put")
	if body, _, err := read(s, good.Digest); err != nil || body != "as it was put" {
		t.Fatalf("put again: %q (%v)", body, err)
	}
	t.Run("the head is lost", func(t *testing.T) {
		for _, text := range []string{"", "{", `{"detected":7}`} {
			if err := os.WriteFile(s.path(good.Digest)+headSuffix, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, info, err := read(s, good.Digest); err != nil || info.Detected != "text/plain; charset=utf-8" || info.Name != "" {
				t.Errorf("%q: %+v (%v)", text, info, err)
			}
		}
	})
	t.Run("somebody removed the file", func(t *testing.T) {
		if err := os.Remove(s.path(good.Digest)); err != nil {
			t.Fatal(err)
		}
		put(t, s, Head{}, "as it was put")
		if body, _, err := read(s, good.Digest); err != nil || body != "as it was put" {
			t.Errorf("%q (%v)", body, err)
		}
	})
}

func TestNewSweeps(t *testing.T) {
	s := open(t, Config{})
	a, b := put(t, s, Head{Name: "a"}, "a"), put(t, s, Head{Name: "b"}, strings.Repeat("b", 10_000))
	used := s.used
	orphan := digestOf("c")
	for name, text := range map[string]string{
		".new-123": "half", a.Digest[:2] + "/.new-9": "half", orphan[:2] + "/" + orphan + ".json": "{}", "note": "somebody's", "zz/" + b.Digest: "elsewhere",
	} {
		path := filepath.Join(s.config.Dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, Config{Dir: s.config.Dir})
	if s.used != used || len(s.entries) != 2 {
		t.Errorf("%d bytes in %d entries, want %d in 2", s.used, len(s.entries), used)
	}
	want := []string{a.Digest[:2] + "/" + a.Digest, a.Digest[:2] + "/" + a.Digest + ".json", b.Digest[:2] + "/" + b.Digest,
		b.Digest[:2] + "/" + b.Digest + ".json", "note", "zz/" + b.Digest}
	slices.Sort(want)
	if got := files(t, s); !slices.Equal(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	if body, info, err := read(s, a.Digest); err != nil || body != "a" || info.Name != "a" {
		t.Errorf("%q %+v (%v)", body, info, err)
	}
}

func TestPrune(t *testing.T) {
	for _, c := range []struct {
		name string
		ages []time.Duration // of a, b, c
		keep string
		max  int64 // 0: no matter
		want string
	}{
		{"all are young", []time.Duration{0, time.Hour, 2 * time.Hour}, "", 0, "abc"},
		{"one is old", []time.Duration{50 * time.Hour, time.Hour, 2 * time.Hour}, "", 0, "bc"},
		{"one is old and needed", []time.Duration{50 * time.Hour, 50 * time.Hour, 2 * time.Hour}, "a", 0, "ac"},
		{"too much: the oldest go", []time.Duration{5 * time.Hour, 9 * time.Hour, 2 * time.Hour}, "", 2 * 2 * block, "ac"},
		{"too much: the oldest is needed", []time.Duration{5 * time.Hour, 9 * time.Hour, 2 * time.Hour}, "b", 2 * 2 * block, "bc"},
		{"too much, but all is new", []time.Duration{0, 0, 59 * time.Minute}, "", 1, "abc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock()
			keep := map[string]bool{}
			s := open(t, Config{Now: clock.Now, MaxAge: 48 * time.Hour, Keep: func(context.Context) (map[string]bool, error) { return keep, nil }})
			for i, letter := range []string{"a", "b", "c"} {
				keep[digestOf(letter)] = strings.Contains(c.keep, letter)
				clock.pass(-c.ages[i])
				put(t, s, Head{}, letter)
				clock.pass(c.ages[i])
			}
			if c.max > 0 {
				s.config.MaxTotal = c.max
			}
			p, err := s.Prune(context.Background())
			var left string
			for _, letter := range []string{"a", "b", "c"} {
				if body, _, err := read(s, digestOf(letter)); err == nil && body == letter {
					left += letter
				}
			}
			if err != nil || left != c.want || p.Left != len(left) || p.Removed != 3-len(left) || p.Used != s.used || s.used != int64(len(left))*2*block {
				t.Errorf("left %s, want %s; %+v, used %d (%v)", left, c.want, p, s.used, err)
			}
			if got := files(t, s); len(got) != 2*len(left) {
				t.Errorf("files: %q", got)
			}
		})
	}
	t.Run("what is needed is not known", func(t *testing.T) {
		clock, trouble := newClock(), errors.New("trouble")
		s := open(t, Config{Now: clock.Now, Keep: func(context.Context) (map[string]bool, error) { return nil, trouble }})
		info := put(t, s, Head{}, "a")
		clock.pass(1000 * time.Hour)
		if _, err := s.Prune(context.Background()); !errors.Is(err, trouble) {
			t.Errorf("got %v", err)
		}
		if _, _, err := read(s, info.Digest); err != nil {
			t.Error(err)
		}
	})
}

func TestTouchRenews(t *testing.T) {
	clock := newClock()
	s := open(t, Config{Now: clock.Now, MaxAge: 10 * time.Hour})
	a, b := put(t, s, Head{Name: "a.txt"}, "a"), put(t, s, Head{}, "b")
	put(t, s, Head{}, "c")
	clock.pass(11 * time.Hour)
	if info, err := s.Touch(context.Background(), a.Digest); err != nil || info.Name != "a.txt" {
		t.Errorf("%+v (%v)", info, err)
	}
	put(t, s, Head{}, "b")
	if _, err := s.Prune(context.Background()); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{Dir: s.config.Dir, Now: clock.Now, MaxAge: 10 * time.Hour})
	if p, err := s.Prune(context.Background()); err != nil || p.Left != 2 || s.entries[a.Digest] == nil || s.entries[b.Digest] == nil {
		t.Errorf("%+v (%v)", p, err)
	}
}

func TestFullStoreMakesRoom(t *testing.T) {
	clock := newClock()
	looked := 0
	keep := map[string]bool{}
	s := open(t, Config{Now: clock.Now, MaxTotal: 20 * block, Keep: func(context.Context) (map[string]bool, error) { looked++; return keep, nil }})
	body := func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", 3*block-10)) } // with its head four blocks
	for i := range 5 {
		put(t, s, Head{}, body(i))
		clock.pass(time.Minute)
	}
	if _, err := s.Put(context.Background(), Head{}, strings.NewReader(body(5))); !errors.Is(err, ErrFull) || looked != 1 {
		t.Fatalf("all is new, and yet: %v (looked %d times)", err, looked)
	}
	if _, err := s.Put(context.Background(), Head{}, strings.NewReader(body(5))); !errors.Is(err, ErrFull) || looked != 1 {
		t.Fatalf("a full store looks each time: %v (%d)", err, looked)
	}
	clock.pass(Grace)
	keep[digestOf(body(0))] = true
	put(t, s, Head{}, body(5))
	for i, want := range []bool{true, false, false, true, true, true} {
		if _, _, err := read(s, digestOf(body(i))); (err == nil) != want {
			t.Errorf("%d: %v", i, err)
		}
	}
	if s.used > s.config.MaxTotal {
		t.Errorf("%d bytes are used", s.used)
	}
}

// TestPutAndPruneSideBySide has puts of the same few objects while others are pruned all the time: what Put returned can be read.
func TestPutAndPruneSideBySide(t *testing.T) {
	clock := newClock()
	s := open(t, Config{Now: clock.Now, MaxAge: Grace})
	stop := make(chan struct{})
	var pruning, putting sync.WaitGroup
	pruning.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			clock.pass(10 * time.Minute)
			if _, err := s.Prune(context.Background()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 4 {
		putting.Go(func() {
			for range 25 {
				body := fmt.Sprint(rand.IntN(5))
				info, err := s.Put(context.Background(), Head{}, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				if got, _, err := read(s, info.Digest); err == nil && got != body || err != nil && !errors.Is(err, ErrNotFound) {
					t.Errorf("%q: read %q (%v)", body, got, err)
				}
			}
		})
	}
	putting.Wait()
	close(stop)
	pruning.Wait()
	var want int64
	for _, e := range s.entries {
		want += e.room
	}
	if s.used != want || len(files(t, s)) != 2*len(s.entries) {
		t.Errorf("used %d, want %d; %d files of %d entries", s.used, want, len(files(t, s)), len(s.entries))
	}
}

func TestRunPrunesAndEnds(t *testing.T) {
	clock := newClock()
	asked := make(chan struct{}, 1)
	s := open(t, Config{Now: clock.Now, Keep: func(context.Context) (map[string]bool, error) { asked <- struct{}{}; return nil, nil }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	<-asked
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func FuzzNames(f *testing.F) {
	for _, seed := range []string{"a.png", "../a", `..\a`, "\u202ea", "\xff\xfe", strings.Repeat("日", 100) + ".tar.gz", "...", " a "} {
		f.Add(seed, "image/png")
	}
	f.Add("a", "text/html; charset=utf-8")
	f.Fuzz(func(t *testing.T, name, mediaType string) {
		clean := cleanName(name)
		if len(clean) > maxName || !utf8.ValidString(clean) || strings.ContainsAny(clean, `/\`) || clean == "." || clean == "../.." ||
			strings.ContainsFunc(clean, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q became %q", name, clean)
		}
		if again := cleanName(clean); again != clean {
			t.Errorf("%q became %q, and then %q", name, clean, again)
		}
		if typ := cleanType(mediaType); strings.ContainsAny(typ, "\r\n; ") || len(typ) > maxType {
			t.Errorf("%q became %q", mediaType, typ)
		}
		info := Info{Detected: "image/png", Claimed: cleanType(mediaType)}
		if !bytes.HasPrefix([]byte(info.Type()), []byte("image/")) {
			t.Errorf("a picture that claims %q became %s", mediaType, info.Type())
		}
	})
}

func TestShares(t *testing.T) {
	clock := newClock()
	why := errors.New("in words")
	dir := t.TempDir()
	config := Config{Dir: dir, Now: clock.Now, MaxTotal: 40 * block, Share: func(owner message.SenderKey) (int64, error) {
		if owner == "free" {
			return 0, nil
		}
		return 12 * block, why
	}}
	s := open(t, config)
	body := func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", 3*block-20)) } // with its head four blocks
	try := func(owner message.SenderKey, i int, want error) {
		t.Helper()
		_, err := s.Put(context.Background(), Head{Owner: owner}, strings.NewReader(body(i)))
		if !errors.Is(err, want) || want != nil && !errors.Is(err, why) {
			t.Errorf("%s puts %d: %v, want %v", owner, i, err, want)
		}
	}
	has := func(i int, want bool) {
		t.Helper()
		if _, _, err := read(s, digestOf(body(i))); (err == nil) != want {
			t.Errorf("%d: %v", i, err)
		}
	}
	try("bob", 100, nil)
	clock.pass(Grace)
	try("bob", 0, nil) // counts for both
	for i := range 3 {
		try("eve", i, nil)
		clock.pass(time.Minute)
	}
	try("eve", 3, ErrShare)                          // all that she has is new
	for _, s := range []*Store{s, open(t, config)} { // and as a restart finds it
		if eve, bob := s.Held("eve"), s.Held("bob"); eve != 12*block || bob != 8*block || s.used != 16*block {
			t.Errorf("eve has %d, bob %d, all %d", eve, bob, s.used)
		}
	}
	if owned := Owned(dir); owned["eve"] != 12*block || owned["bob"] != 8*block {
		t.Errorf("beside it: %v", owned)
	}
	clock.pass(Grace)
	try("eve", 3, nil) // for her own oldest one
	has(100, true)
	has(0, true) // it is bob's, too
	if s.Held("eve") > 12*block {
		t.Errorf("eve has %d", s.Held("eve"))
	}
	clock.pass(Grace)
	for i := range 5 {
		try("free", 10+i, nil) // fills the store
		clock.pass(time.Minute)
	}
	clock.pass(Grace)
	try("cy", 20, nil)
	has(100, true) // the oldest of all, and that of one who has little
	has(10, false)
}

func TestDisown(t *testing.T) {
	s, err := New(Config{Dir: t.TempDir(), Keep: func(context.Context) (map[string]bool, error) {
		return map[string]bool{digestOf("needed"): true}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	put := func(owner message.SenderKey, text string) {
		t.Helper()
		if _, err := s.Put(t.Context(), Head{Name: "a", Owner: owner}, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	put("irc:ann", "own")
	put("irc:ann", "shared")
	put("irc:bob", "shared")
	put("irc:ann", "needed")
	put("irc:bob", "other")
	if n, err := s.Disown(t.Context(), "irc:ann"); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	if len(s.Of("irc:ann")) != 0 || s.Held("irc:ann") != 0 || s.Owns("irc:ann", digestOf("shared")) || !s.Owns("irc:bob", digestOf("shared")) || len(s.Of("irc:bob")) != 2 {
		t.Errorf("ann has %v, bob %v", s.Of("irc:ann"), s.Of("irc:bob"))
	}
	for text, there := range map[string]bool{"own": false, "shared": true, "needed": true, "other": true} {
		body, _, err := s.Open(t.Context(), digestOf(text))
		if (err == nil) != there {
			t.Errorf("%s is there: %v", text, err)
		}
		if err == nil {
			body.Close()
		}
	}
	var sum int64
	for _, n := range s.Owned() {
		sum += n
	}
	if again, err := New(Config{Dir: s.config.Dir}); err != nil || !maps.Equal(again.Owned(), s.Owned()) || sum == 0 {
		t.Errorf("after a restart the owners are %v, before %v (%v)", again.Owned(), s.Owned(), err)
	}
}
