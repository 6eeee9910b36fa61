package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"
)

// short is a listener that has no descriptor for a connection until it is closed.
type short struct {
	net.Listener
	lack error
}

func (s short) Accept() (net.Conn, error) {
	return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", s.lack)}
}

// TestIdleConnectionsAreGivenUp has one server run short of descriptors: the idle connection of another is closed, and one in use is not.
func TestIdleConnectionsAreGivenUp(t *testing.T) {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		var idle Idle
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		release, entered := make(chan struct{}), make(chan struct{})
		srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				close(entered)
				<-release
			}
		})}
		over := make(chan error, 2)
		go func() { over <- idle.serve(srv, ln) }()
		ask := func(path string) (net.Conn, *bufio.Reader) {
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			return c, bufio.NewReader(c)
		}
		answer := func(r *bufio.Reader) {
			res, err := http.ReadResponse(r, nil)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%v: answer %+v, error %v", lack, res, err)
			}
		}
		kept, lines := ask("/")
		answer(lines)
		used, slow := ask("/slow")
		<-entered
		poor := &http.Server{ReadHeaderTimeout: time.Minute}
		go func() { over <- idle.serve(poor, short{ln, lack}) }()
		if _, err := lines.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%v: the idle connection is still there: %v", lack, err)
		}
		close(release)
		answer(slow)
		if len(over) > 0 {
			t.Errorf("%v: a server has ended: %v", lack, <-over)
		}
		for _, s := range []*http.Server{poor, srv} {
			s.Close()
		}
		<-over
		<-over
		kept.Close()
		used.Close()
	}
}
