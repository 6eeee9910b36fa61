package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
)

// tunnel connects, confirms it to the program, and carries bytes both ways once the ClientHello has named the right host. No byte reaches
// the server before.
func (e *exchange) tunnel(ctx context.Context, r *request, addrs []netip.Addr) error {
	server, err := e.proxy.dial(ctx, addrs, r.Port)
	if err != nil {
		return e.answer(err)
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if _, err := io.WriteString(e.conn, "HTTP/1.1 200 Connection Established\r\n\r\n"); err != nil {
		return err
	}
	e.watch.Reset(e.proxy.config.GreetTimeout)
	greeting, err := e.greeting(r)
	if greeting == nil {
		return err
	}
	e.touch()
	if _, err := server.Write(greeting); err != nil {
		return err
	}
	return e.splice(server)
}

// greeting returns the ClientHello of a tunnel if it names the tunnel's host. Otherwise it returns nil, and the program has been answered.
func (e *exchange) greeting(r *request) ([]byte, error) {
	greeting, h, err := readHello(e.client)
	if errors.Is(err, io.EOF) {
		return nil, nil // the program gave up
	}
	if err == nil {
		err = h.check(r)
	}
	if err == nil {
		return greeting, nil
	}
	d := decision(r)
	d.Addrs, d.Reason = e.granted.Addrs, err.Error()
	e.proxy.decide(d)
	_, err = io.WriteString(e.conn, unrecognizedName)
	return nil, err
}

// check compares the name in the ClientHello with the requested host.
func (h hello) check(r *request) error {
	switch {
	case h.hidden:
		return errors.New("the TLS greeting hides a name (encrypted client hello); switch that off")
	case r.Host.IsAddr() && h.name != "":
		return fmt.Errorf("the TLS greeting names %q, but the tunnel is for an address", h.name)
	case !r.Host.IsAddr() && h.name == "":
		return errors.New("the TLS greeting names no host")
	case !r.Host.IsAddr() && h.name != r.Host.Name:
		return fmt.Errorf("the TLS greeting names %q, but the tunnel is for %s", h.name, r.Host.Name)
	}
	return nil
}

// splice copies in both directions until the server has finished or one side fails.
func (e *exchange) splice(server net.Conn) error {
	up := make(chan error, 1)
	go func() {
		_, err := io.Copy(server, e.carry(e.client, &e.up))
		if half, ok := server.(interface{ CloseWrite() error }); ok && err == nil {
			err = half.CloseWrite()
		}
		if err != nil {
			server.Close() // ends the other direction too
		}
		up <- err
	}()
	_, down := io.Copy(e.conn, e.carry(server, &e.down))
	e.conn.Close()
	server.Close()
	return errors.Join(down, <-up)
}

func portText(port uint16) string { return strconv.Itoa(int(port)) }
