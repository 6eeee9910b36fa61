package native_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/machine"
	"github.com/flynnhost/flynn/host/sandbox/selftest"
)

// hostNetwork makes the network that the sandboxes compared take for the host's. Its loopback has the address of the cloud's metadata service
// and one of a private network; a second network namespace has the public address of what stands on the list.
var hostNetwork = []string{
	"cd $TMPDIR",
	"ip link set lo up",
	"for a in 169.254.169.254 10.77.0.1; do ip address add $a/32 dev lo; done",
	"echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start",
	"unshare --net sleep 10000 </dev/null >/dev/null 2>&1 & world=$!",
	"until [ $(readlink /proc/$world/ns/net) != $(readlink /proc/self/ns/net) ]; do sleep 0.1; done",
	"ip link add out type veth peer name in netns $world",
	"ip address add 93.184.216.1 peer 93.184.216.34 dev out",
	"ip link set out up",
	"nsenter --net=/proc/$world/ns/net sh -e -c 'ip link set in up; ip address add 93.184.216.34 peer 93.184.216.1 dev in'",
	"mkdir -p site/cgi-bin",
	"echo welcome >site/index.html",
	`printf '#!/bin/sh\nprintf "Status: 302 Found\\r\\nLocation: http://metadata.flynn.example/\\r\\n\\r\\n"\n' >site/cgi-bin/redirect`,
	"chmod -R a+rX,u+x site",
	"chmod 0755 site/cgi-bin/redirect",
	"nsenter --net=/proc/$world/ns/net busybox httpd -p 93.184.216.34:80 -h $PWD/site",
	"printf '%s\\n' '127.0.0.1 localhost loopback.flynn.example' '169.254.169.254 metadata.flynn.example' '10.77.0.1 private.flynn.example' '93.184.216.34 public.flynn.example' >hosts",
	"chmod 0644 hosts",
	"mount --bind hosts /etc/hosts",
	"cd - >/dev/null",
}

// host is what listens on the host.
type host struct {
	loopback string // address
	socket   string // path
}

// hostSecret is what each listener of the host says.
const hostSecret = "a secret of the host"

// openHost opens the listeners until the test ends.
func openHost(t *testing.T, socket string) host {
	t.Helper()
	secret := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, hostSecret) })
	serve := func(network, address string, h http.Handler) string {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { server.Close() })
		return l.Addr().String()
	}
	h := host{loopback: serve("tcp", "127.0.0.1:0", secret), socket: serve("unix", socket, secret)}
	serve("tcp", "169.254.169.254:80", secret)
	serve("tcp", "10.77.0.1:80", secret)
	serve("unix", "@flynn-compared", secret)
	resolver, err := net.ListenPacket("udp", "127.0.0.53:53")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resolver.Close() })
	go func() {
		for buf := make([]byte, 512); ; {
			_, from, err := resolver.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = resolver.WriteTo([]byte(hostSecret), from)
		}
	}()
	return h
}

// directly fetches a URL without a proxy.
const directly = "curl -s --max-time 5 --noproxy '*' "

// hostAttacks need no list: a sandbox without a network has nothing of this.
func hostAttacks(h host) []selftest.Probe {
	_, port, _ := net.SplitHostPort(h.loopback)
	return []selftest.Probe{
		own("network/host-loopback", directly+"http://"+h.loopback, hostSecret),
		own("network/host-loopback-by-proxy", "curl -s --max-time 5 http://"+h.loopback, hostSecret),
		own("network/host-loopback-by-name", "curl -s --max-time 5 http://localhost:"+port, hostSecret),
		own("network/host-resolver", `bash -c 'exec 3<>/dev/udp/127.0.0.53/53 && echo query >&3 && timeout 2 head -c 20 <&3'`, hostSecret),
		own("network/private-address", directly+"http://10.77.0.1/", hostSecret),
		own("metadata/address", directly+"http://169.254.169.254/latest/meta-data/", hostSecret),
		own("metadata/by-proxy", "curl -s --max-time 5 http://169.254.169.254/latest/meta-data/", hostSecret),
		own("metadata/mapped-address", directly+"http://[::ffff:169.254.169.254]/", hostSecret),
		own("socket/abstract", directly+"--abstract-unix-socket flynn-compared http://host/", hostSecret),
		own("socket/path", directly+"--unix-socket "+h.socket+" http://host/", hostSecret),
	}
}

// listAttacks are on a proxy that lets programs reach *.flynn.example.
func listAttacks(h host) []selftest.Probe {
	_, port, _ := net.SplitHostPort(h.loopback)
	by := func(name, args string) selftest.Probe {
		return own("allowlist/"+name, "curl -s --max-time 5 "+args, hostSecret)
	}
	return []selftest.Probe{
		by("name-of-metadata", "http://metadata.flynn.example/"),
		by("name-of-private", "http://private.flynn.example/"),
		by("name-of-loopback", "http://loopback.flynn.example:"+port),
		by("tunnel-to-name-of-metadata", "--proxytunnel http://metadata.flynn.example/"),
		by("tunnel-to-metadata", "--proxytunnel http://169.254.169.254/"),
		by("tunnel-to-private", "--proxytunnel http://10.77.0.1/"),
		by("tunnel-to-loopback", "--proxytunnel http://"+h.loopback),
		by("decimal-address", "--proxytunnel http://2852039166/"),
		by("redirect", "--location http://public.flynn.example/cgi-bin/redirect"),
		own("allowlist/without-proxy", directly+"http://metadata.flynn.example/", hostSecret),
	}
}

// works reports whether a sandbox with a list reaches what is on it.
func works(t *testing.T, name string, listed selftest.Target) bool {
	t.Helper()
	if listed == nil {
		return false
	}
	r, err := listed.Exec(t.Context(), machine.Command{Script: "curl -sS --max-time 5 http://public.flynn.example/"})
	if err != nil || !strings.Contains(string(r.Stdout), "welcome") {
		t.Logf("the list of %s does not work here: %v, %s%s", name, err, r.Stdout, r.Stderr)
		return false
	}
	return true
}

// mustBeOpen checks that each attack succeeds without a sandbox.
func (h host) mustBeOpen(t *testing.T) {
	t.Helper()
	none := launcher{program: "env", work: t.TempDir(), home: t.TempDir(), temp: t.TempDir()}
	for _, p := range append(hostAttacks(h), listAttacks(h)...) {
		f, err := p.Run(t.Context(), &selftest.Subject{Target: none})
		if err != nil || f.Status != selftest.Fail {
			t.Errorf("%s does not succeed without a sandbox: %+v, %v", p.Name, f, err)
		}
	}
}
