// Package postgrestest starts private Postgres servers and poolers for tests.
//
// Start with Shared, which a package's tests have in common, or with Start. A server listens on a Unix socket in a folder of its own, runs
// as the user postgres if the test runs as root, and ends with the test process. Where there is no Postgres, tests are skipped, except
// where FLYNN_TEST_REQUIRE names postgres. The package is for tests only.
package postgrestest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/flynnhost/flynn/sdk/need"
)

// Server is a private Postgres server.
type Server struct {
	dir     string // with data, the socket and the log
	bin     string // the folder of the server's programs
	process *exec.Cmd
	ended   chan struct{} // closed when process is gone
	names   atomic.Int64
	options Options
}

// Options are what few servers need.
type Options struct {
	// Durable has the server flush what it commits to the disk, as those do that people run. Without it, writes survive the end of the server, and
	// not that of the machine.
	Durable bool
	// Dir is where the folder of the server is made; /tmp when empty. Its path must be short, and others must be able to enter it.
	Dir string
	// Env are further variables of the server's processes.
	Env []string
	// Args are further arguments of the server.
	Args []string
}

var shared struct {
	sync.Mutex
	server *Server
}

// Shared returns the server of the test process. TestMain must run the tests with Main.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		s, err := start(Options{})
		need.Part(t, "postgres", err)
		shared.server = s
	}
	return shared.server
}

// Main runs tests, and then stops the server that Shared has started.
type Main struct{ *testing.M }

// Run implements what goleak.VerifyTestMain runs.
func (m Main) Run() int {
	defer stopShared()
	return m.M.Run()
}

func stopShared() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		shared.server.end()
		shared.server = nil
	}
}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartWith(t, Options{})
}

// StartWith is like Start, for a server with options.
func StartWith(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := start(o)
	need.Part(t, "postgres", err)
	t.Cleanup(s.end)
	return s
}

func start(o Options) (_ *Server, err error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if path, e := exec.LookPath("postgres"); e == nil && len(found) == 0 {
		found = append(found, path)
	}
	if err != nil || len(found) == 0 {
		return nil, errors.New("there is no program postgres: apt-get install postgresql")
	}
	slices.Sort(found)
	dir, err := os.MkdirTemp(cmp.Or(o.Dir, "/tmp"), "flynn-pg") // short, because it is in the path of a socket
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: filepath.Dir(found[len(found)-1]), options: o}
	if err := own(dir); err != nil {
		return nil, err
	}
	out, err := s.command("initdb", "-D", s.data(), "-A", "trust", "-U", "flynn", "-E", "UTF8", "--locale=C.UTF-8", "-N").CombinedOutput()
	if err == nil {
		err = s.Run()
	}
	if err != nil {
		s.end()
		return nil, fmt.Errorf("start postgres: %w: %s", err, out)
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command returns a command of the server's programs, run as postgres where the test is root, as which a server refuses to run.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	if s.bin != "" {
		name = filepath.Join(s.bin, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	endWithParent(cmd.SysProcAttr)
	if id := account(); id != nil {
		cmd.SysProcAttr.Credential = id
	}
	return cmd
}

// account returns the user postgres if the process is root, else nil.
func account() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func own(path string) error {
	if id := account(); id != nil {
		return os.Chown(path, int(id.Uid), int(id.Gid))
	}
	return nil
}

// Run starts the server again after Stop or Kill, and returns when it answers. It may end at once while processes of a killed one are left.
func (s *Server) Run() error {
	late := time.Now().Add(30 * time.Second)
	for {
		if err := s.launch(); err != nil {
			return err
		}
		err := s.answers(late)
		if err == nil || time.Now().After(late) {
			return err
		}
		s.process = nil
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *Server) launch() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.command("postgres", append([]string{
		"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "fsync=" + strconv.FormatBool(s.options.Durable), "-c", "max_connections=400",
	}, s.options.Args...)...)
	cmd.Env = append(os.Environ(), s.options.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.process, s.ended = cmd, ended
	go func() { // ends with the process, for which Stop and Kill wait
		_ = cmd.Wait()
		close(ended)
	}()
	return nil
}

// answers waits until the server answers or has ended.
func (s *Server) answers(late time.Time) error {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			err = conn.Close(ctx)
		}
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
		case <-time.After(5 * time.Millisecond):
			if time.Now().Before(late) {
				continue
			}
		}
		text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Errorf("%w: %s", err, text)
	}
}

// Standby returns a copy of the server as it is now, with its databases, which is not started. Its first Run promotes it: it does not know what the
// server has committed since, as a standby to which nothing was sent.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "flynn-pg")
	if err != nil {
		t.Fatal(err)
	}
	to := &Server{dir: dir, bin: s.bin, options: s.options}
	t.Cleanup(to.end)
	if err := own(dir); err != nil {
		t.Fatal(err)
	}
	if out, err := to.command("pg_basebackup", "-D", to.data(), "-h", s.dir, "-U", "flynn", "-X", "stream", "-c", "fast").CombinedOutput(); err != nil {
		t.Fatalf("copy the server: %v: %s", err, out)
	}
	// It looks for more in an archive, has none, and begins a timeline.
	settings, err := os.OpenFile(filepath.Join(to.data(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = settings.WriteString("restore_command = 'false'\n")
		err = errors.Join(err, settings.Close(), os.WriteFile(filepath.Join(to.data(), "recovery.signal"), nil, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// Stop stops the server as pg_ctl stop -m immediate does: its processes end at once, and it recovers when it is started again.
func (s *Server) Stop() { s.signal(syscall.SIGQUIT) }

// Kill kills the server's first process; the others notice and end. It is for tests that run as the first process of a PID namespace.
func (s *Server) Kill() {
	if os.Getpid() != 1 {
		panic("a process is killed outside of a PID namespace for it")
	}
	s.signal(syscall.SIGKILL)
}

func (s *Server) signal(sig syscall.Signal) {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(sig)
	<-s.ended
	s.process = nil
}

func (s *Server) end() {
	s.Stop()
	_ = os.RemoveAll(s.dir)
}

// Socket returns the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// URL returns the address of a database.
func (s *Server) URL(database string) string {
	return "postgres://flynn@/" + database + "?" + url.Values{"host": {s.dir}}.Encode()
}

// Ended is closed when the process of the server that was started last is gone.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Either returns the address of a database that is on this server or on another one.
func (s *Server) Either(other *Server, database string) string {
	return "postgres://flynn@/" + database + "?" + url.Values{"host": {s.dir + "," + other.dir}, "target_session_attrs": {"read-write"}}.Encode()
}

// Database makes an empty database, and returns its name. It goes with the server: dropping one takes a checkpoint, and longer than a test.
func (s *Server) Database(t testing.TB) string { return s.make(t, "") }

// Copy makes a database like another one to which nobody is connected.
func (s *Server) Copy(t testing.TB, of string) string { return s.make(t, " TEMPLATE "+of) }

func (s *Server) make(t testing.TB, like string) string {
	t.Helper()
	name := "d" + strconv.FormatInt(s.names.Add(1), 10)
	s.Exec(t, "postgres", "CREATE DATABASE "+name+like)
	return name
}

// Exec runs statements without parameters in a database.
func (s *Server) Exec(t testing.TB, database, statements string) {
	t.Helper()
	if err := s.exec(database, statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

func (s *Server) exec(database, statements string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, statements).ReadAll()
	return err
}

// Pooler starts pgbouncer in front of the server, in the mode in which each transaction may have another connection. It returns a function
// that is like URL.
func (s *Server) Pooler(t testing.TB) func(database string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
		_, err = os.Stat(program)
	}
	need.Part(t, "postgres", err)
	dir, err := os.MkdirTemp(s.dir, "b")
	if err == nil {
		err = own(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "ini")
	text := fmt.Sprintf(`[databases]
* = host=%s user=flynn
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = %s
pool_mode = transaction
auth_type = any
max_client_conn = 500
default_pool_size = 20
server_idle_timeout = 5
server_login_retry = 0.1
logfile = %s
`, s.dir, dir, filepath.Join(dir, "log"))
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := (&Server{dir: dir}).command(program, "-q", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	})
	at := func(database string) string {
		return "postgres://flynn@/" + database + "?" + url.Values{"host": {dir}, "port": {"6432"}}.Encode()
	}
	for late := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := pgx.Connect(t.Context(), at("postgres")+"&default_query_exec_mode=exec")
		if err == nil {
			_ = conn.Close(t.Context())
			return at
		}
		if time.Now().After(late) {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("pgbouncer does not answer: %v: %s", err, strings.TrimSpace(string(log)))
		}
	}
}

// Bench returns how many transactions of one inserted row the server's own pgbench commits in a second.
func (s *Server) Bench(t testing.TB, clients int) float64 {
	t.Helper()
	database := s.Database(t)
	s.Exec(t, database, "CREATE TABLE rows (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text TEXT)")
	script := filepath.Join(s.dir, "insert.sql")
	if err := os.WriteFile(script, []byte("INSERT INTO rows (text) VALUES ('a row');\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := s.command("pgbench", "-n", "-M", "prepared", "-f", script, "-c", strconv.Itoa(clients), "-T", "3", "-h", s.dir, "-U", "flynn", database).CombinedOutput()
	if err != nil {
		t.Fatalf("pgbench: %v: %s", err, out)
	}
	_, after, _ := strings.Cut(string(out), "tps = ")
	figure, _, _ := strings.Cut(after, " ")
	tps, err := strconv.ParseFloat(figure, 64)
	if err != nil {
		t.Fatalf("pgbench: %v: %s", err, out)
	}
	return tps
}

// CPU returns what the server's processes have used of the processors, those that ended too.
func (s *Server) CPU() time.Duration {
	first := strconv.Itoa(s.process.Process.Pid)
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	var ticks int
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		_, rest, _ := strings.Cut(string(text), ") ") // after the name
		fields := strings.Fields(rest)
		if len(fields) < 15 || fields[1] != first && filepath.Base(filepath.Dir(path)) != first {
			continue
		}
		for _, field := range fields[11:15] { // user and system, of the process and of its children
			n, _ := strconv.Atoi(field)
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
