package egress

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

// exchange is one connection, with one request.
type exchange struct {
	proxy  *Proxy
	conn   io.ReadWriteCloser
	client *bufio.Reader // reads conn
	watch  *time.Timer   // closes the connection when it fires

	granted  Decision     // the last decision that allowed something
	up, down atomic.Int64 // bytes carried from and to the program
}

func newExchange(p *Proxy, conn io.ReadWriteCloser, end context.CancelFunc) *exchange {
	return &exchange{
		proxy: p, conn: conn, client: bufio.NewReader(conn),
		watch: time.AfterFunc(p.config.GreetTimeout, end),
	}
}

// run reads the request, decides about it and carries it out.
func (e *exchange) run(ctx context.Context) error {
	head, err := readHead(e.client, e.proxy.config.MaxHeader)
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil // no request came
	}
	var r *request
	if err == nil {
		r, err = parseRequest(head)
	}
	if err != nil {
		e.proxy.decide(Decision{Reason: err.Error()})
		return e.answer(err)
	}
	if r.Method != http.MethodConnect {
		e.proxy.upgrade(r)
		return e.pass(ctx, r)
	}
	addrs, err := e.admit(ctx, r)
	if err != nil {
		return e.answer(err)
	}
	e.touch()
	if len(e.proxy.credentials(r.Target, true)) > 0 && e.proxy.config.Authority != nil {
		return e.terminate(ctx, r)
	}
	return e.tunnel(ctx, r, addrs)
}

// pass decides about a request that is not tunnelled, and forwards it.
func (e *exchange) pass(ctx context.Context, r *request) error {
	addrs, err := e.admit(ctx, r)
	if err != nil {
		return e.answer(err)
	}
	e.touch()
	return e.forward(ctx, r, addrs)
}

// admit decides about a request. Names that are not listed are not even resolved, because a name can carry a message.
func (e *exchange) admit(ctx context.Context, r *request) ([]netip.Addr, error) {
	d := decision(r)
	d.ID = rand.Text()
	var err error
	switch {
	case e.proxy.spent():
		err = refuse(http.StatusForbidden, fmt.Errorf("this sandbox has carried the %d bytes that egress_limit allows", e.proxy.config.Limit))
	case !e.proxy.config.Rules.Cover(r.Target):
		err = refuse(http.StatusForbidden, fmt.Errorf("%s %s:%d is not on the allowlist of this sandbox", r.Method, r.Host.Name, r.Port))
	case e.proxy.strays(r) != nil:
		err = e.proxy.strays(r)
	case r.length > e.proxy.config.MaxBody:
		err = refuse(http.StatusRequestEntityTooLarge, fmt.Errorf("a body of %d bytes is above %d", r.length, e.proxy.config.MaxBody))
	default:
		if r.Method != http.MethodConnect {
			err = e.proxy.inject(r)
		}
		switch {
		case err != nil:
		case r.inside:
			d.Addrs = e.granted.Addrs // a connection resolves its host once
		default:
			d.Addrs, err = e.proxy.pin(ctx, r.Host)
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if d.Allowed = err == nil; !d.Allowed {
		d.Reason = err.Error()
	}
	d.Credential = d.Allowed && len(r.secrets) > 0
	if c, ok := e.proxy.placed(r.Host); ok && d.Allowed {
		d.Reason = "reached as configured, at " + c.Place()
	}
	e.proxy.decide(d)
	if d.Allowed {
		e.granted = d
	}
	return d.Addrs, err
}

func decision(r *request) Decision {
	return Decision{Method: r.Method, Host: r.Host.Name, Port: r.Port}
}

// touch restarts the idle timer.
func (e *exchange) touch() { e.watch.Reset(e.proxy.config.IdleTimeout) }

// answer sends the reason of a refusal to the program.
func (e *exchange) answer(reason error) error {
	status := statusOf(reason)
	body := "flynn: " + reason.Error() + "\n"
	_, err := fmt.Fprintf(e.conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(body), body)
	return err
}

// errTooMuch ends a connection that exceeds MaxBody.
var errTooMuch = errors.New("more bytes than one connection may carry")

// carried is a reader that counts bytes and enforces the limits of the exchange.
type carried struct {
	e     *exchange
	src   io.Reader
	left  int64
	count *atomic.Int64
}

// carry returns a reader of src that adds to count.
func (e *exchange) carry(src io.Reader, count *atomic.Int64) *carried {
	return &carried{e: e, src: src, left: e.proxy.config.MaxBody, count: count}
}

func (c *carried) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	if n > 0 {
		c.e.touch()
	}
	if c.left -= int64(n); c.left < 0 {
		return 0, errTooMuch
	}
	if !c.e.proxy.spend(int64(n)) {
		return 0, errSpent
	}
	c.count.Add(int64(n))
	return n, err
}
