//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// patience is how long a probe waits for an answer, which comes from the loopback or not at all.
const patience = 2 * time.Second

// others returns the network interfaces besides the loopback.
func others() ([]string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var names []string
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			names = append(names, i.Name)
		}
	}
	return names, nil
}

func interfaces([]string) (answer, error) {
	names, err := others()
	if err != nil || len(names) == 0 {
		return held("only the loopback"), err
	}
	return breach("interfaces %s", strings.Join(names, " ")), nil
}

// errReachable keeps the probes from sending packets to other machines.
var errReachable = errors.New("there are interfaces besides the loopback; no packet is sent")

// cutOff is a file beside the program that says that nothing passes the other interfaces: peer has held.
const cutOff = "flynn-probe.cut-off"

func onlyLoopback() error {
	if _, err := os.Stat(cutOff); err == nil {
		return nil
	}
	names, err := others()
	if err == nil && len(names) > 0 {
		return fmt.Errorf("%w: %v", errReachable, names)
	}
	return err
}

// peer ADDRESS connects to the supervisor of another sandbox of the self-test, which listens there.
func peer(args []string) (answer, error) {
	if len(args) != 1 {
		return answer{}, errors.New("needs ADDRESS")
	}
	conn, err := net.DialTimeout("tcp", args[0], patience)
	if err != nil {
		return held("nothing passes, not even to another sandbox: %v", err), nil
	}
	defer conn.Close()
	return breach("connected to another sandbox at %s", args[0]), nil
}

// connect NETWORK ADDRESS; for UDP it waits for an answer, because sending alone proves nothing.
func connect(args []string) (answer, error) {
	if len(args) != 2 {
		return answer{}, errors.New("needs NETWORK ADDRESS")
	}
	if err := onlyLoopback(); err != nil {
		return answer{}, err
	}
	conn, err := net.DialTimeout(args[0], args[1], patience)
	if err != nil {
		return held("%v", err), nil
	}
	defer conn.Close()
	if args[0] == "tcp" {
		return breach("connected to %s", args[1]), nil
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte("flynn")); err != nil {
		return held("%v", err), nil
	}
	if _, err := conn.Read(make([]byte, 16)); err != nil {
		return held("%v", err), nil
	}
	return breach("%s answered", args[1]), nil
}

// mapped ADDRESS connects over an IPv6 socket to an IPv4 address, which bypasses filters that know one form.
func mapped(args []string) (answer, error) {
	if len(args) != 1 {
		return answer{}, errors.New("needs ADDRESS:PORT")
	}
	if err := onlyLoopback(); err != nil {
		return answer{}, err
	}
	target, err := netip.ParseAddrPort(args[0])
	if err != nil {
		return answer{}, err
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return held("%v", err), nil
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(patience.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err != nil {
		return answer{}, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet6{Port: int(target.Port()), Addr: target.Addr().As16()}); err != nil {
		return held("%v", err), nil
	}
	return breach("connected to ::ffff:%s", target.Addr()), nil
}

// fetch URL
func fetch(args []string) (answer, error) {
	if len(args) != 1 {
		return answer{}, errors.New("needs URL")
	}
	if err := onlyLoopback(); err != nil {
		return answer{}, err
	}
	return get(args[0]), nil
}

// get fetches a URL without a proxy, and through the proxy that the environment names.
func get(url string) answer {
	var last error
	for _, proxy := range []*http.Transport{{}, {Proxy: http.ProxyFromEnvironment}} {
		client := http.Client{Timeout: 2 * patience, Transport: proxy}
		r, err := client.Get(url)
		if err == nil {
			defer r.Body.Close()
			return breach("%s answered %s", url, r.Status)
		}
		last = err
	}
	return held("%v", last)
}

// redirected URL serves a redirect to URL on the loopback and follows it.
func redirected(args []string) (answer, error) {
	if len(args) != 1 {
		return answer{}, errors.New("needs URL")
	}
	if err := onlyLoopback(); err != nil {
		return answer{}, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return answer{}, err
	}
	server := &http.Server{Handler: http.RedirectHandler(args[0], http.StatusFound), ReadHeaderTimeout: patience}
	defer server.Close()
	go func() { _ = server.Serve(l) }()
	return get("http://" + l.Addr().String() + "/"), nil
}

// ping ADDRESS over a datagram socket, which needs no privilege, and over a raw socket, which root could use.
func ping(args []string) (answer, error) {
	if len(args) != 1 {
		return answer{}, errors.New("needs ADDRESS")
	}
	if err := onlyLoopback(); err != nil {
		return answer{}, err
	}
	ip := net.ParseIP(args[0])
	var last error
	for network, to := range map[string]net.Addr{"udp4": &net.UDPAddr{IP: ip}, "ip4:icmp": &net.IPAddr{IP: ip}} {
		if last = echo(network, to); last == nil {
			return breach("%s answered an echo", args[0]), nil
		}
	}
	return held("%v", last), nil
}

func echo(network string, to net.Addr) error {
	conn, err := icmp.ListenPacket(network, "0.0.0.0")
	if err != nil {
		return err
	}
	defer conn.Close()
	request, err := (&icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: os.Getpid() & 0xffff, Seq: 1}}).Marshal(nil)
	if err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.WriteTo(request, to); err != nil {
		return err
	}
	_, _, err = conn.ReadFrom(make([]byte, 256))
	return err
}

// serve NETWORK ADDRESS is another machine for a negative control: it adds the address to the loopback, answers on it
// and runs until it is ended. It needs NET_ADMIN in a network namespace with nothing but the loopback.
func serve(args []string) (answer, error) {
	if len(args) != 2 {
		return answer{}, errors.New("needs NETWORK ADDRESS")
	}
	if err := onlyLoopback(); err != nil {
		return answer{}, err
	}
	if args[0] == "unix" {
		return answer{}, serveStream("unix", args[1])
	}
	target, err := netip.ParseAddrPort(args[1])
	if err != nil {
		return answer{}, err
	}
	if err := bear(target.Addr()); err != nil {
		return answer{}, fmt.Errorf("give the loopback %s: %w", target.Addr(), err)
	}
	if args[0] == "tcp" {
		return answer{}, serveStream("tcp", args[1])
	}
	return answer{}, serveUDP(args[1])
}

// bear adds an address to the loopback, under an alias of its own.
func bear(a netip.Addr) error {
	if a.IsLoopback() {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	b := a.As4()
	r, err := unix.NewIfreq(fmt.Sprintf("lo:%x", uint16(b[2])<<8|uint16(b[3])))
	if err != nil {
		return err
	}
	if err := r.SetInet4Addr(b[:]); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFADDR, r)
}

func serveStream(network, address string) error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), network, address)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "reached\n") })
	return (&http.Server{Handler: handler, ReadHeaderTimeout: patience}).Serve(l)
}

func serveUDP(address string) error {
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	buf := make([]byte, 64)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return err
		}
		if _, err := conn.WriteTo(buf[:n], from); err != nil {
			return err
		}
	}
}
