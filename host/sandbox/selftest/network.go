package selftest

import (
	"context"
	"fmt"

	"github.com/flynnhost/flynn/host/sandbox/docker"
)

const (
	networkRow     = "network off"
	metadataRow    = "metadata"
	networkSetting = `network = "none" in [sandbox]`
)

// offline makes an attack by packets send none if they could leave the machine.
func offline(try attack) attack {
	return func(ctx context.Context, s *Subject) (Finding, error) {
		if s.Spec.Network != "none" {
			return allowed("network is %q: not tried, because packets would leave", s.Spec.Network), nil
		}
		return try(ctx, s)
	}
}

// stranger returns a control in which our own listener has the attacked address.
func stranger(network, address string) func(*Subject) Control {
	return always(Control{Weakness: docker.Weakness{Powerful: true}, Root: true, Setup: serving(network, address)})
}

// serving starts a listener in the background and waits for it.
func serving(network, address string) string {
	return fmt.Sprintf(`log=$(mktemp); ./%s serve %s %s >$log 2>&1 & i=0
until grep -q ready $log; do i=$((i+1)); [ $i -gt 250 ] && { cat $log >&2; exit 1; }; sleep 0.1; done`, programName, network, address)
}

func reach(row, name, why, try, network, address string) Probe {
	return Probe{
		Name: name, Row: row, Why: why, Setting: networkSetting,
		Run: offline(program(try)), Control: stranger(network, address),
	}
}

func networkProbes() []Probe {
	root := always(Control{Weakness: docker.Weakness{Powerful: true}, Root: true})
	return []Probe{
		{
			Name: "network/interfaces", Row: networkRow, Why: "any interface leads out", Setting: networkSetting,
			Run: configured(noWayOut), Control: always(Control{Weakness: docker.Weakness{HostNetwork: true}}),
		},
		reach(networkRow, "network/tcp", "stolen data leaves over any TCP connection", "connect tcp 1.1.1.1:80", "tcp", "1.1.1.1:80"),
		reach(networkRow, "network/udp", "stolen data leaves in datagrams", "connect udp 9.9.9.9:443", "udp", "9.9.9.9:443"),
		reach(networkRow, "network/dns", "a name server carries data to anybody", "connect udp 8.8.8.8:53", "udp", "8.8.8.8:53"),
		reach(networkRow, "network/engine-dns", "the engine's own name server forwards queries", "connect udp 127.0.0.11:53", "udp", "127.0.0.11:53"),
		reach(networkRow, "network/bridge", "the engine's bridge leads to services of the host", "connect tcp 172.17.0.1:80", "tcp", "172.17.0.1:80"),
		reach(networkRow, "network/private", "the owner's own network is open to scans", "connect tcp 192.168.0.1:443", "tcp", "192.168.0.1:443"),
		reach(networkRow, "network/icmp", "echo requests carry data", "ping 1.0.0.1", "tcp", "1.0.0.1:7"),
		{
			Name: "network/raw-socket", Row: networkRow, Why: "forged packets pass address checks",
			Setting: "upgrade the engine: it must drop NET_RAW", Run: program("socket raw"), Control: root,
		},
		{
			Name: "network/packet-socket", Row: networkRow, Why: "other containers' packets can be read",
			Setting: "upgrade the engine: it must drop NET_RAW", Run: program("socket packet"), Control: root,
		},
		{
			Name: "network/no-service", Row: networkRow, Why: "a service on the loopback may lead out", Setting: networkSetting,
			Run: offline(script(listeners)),
			Control: always(Control{
				Weakness: docker.Weakness{Powerful: true}, Root: true, Setup: serving("tcp", "127.0.0.1:3128"),
			}),
		},
	}
}

// noWayOut looks for interfaces. One by which the host reaches the supervisor must let nothing else pass.
func noWayOut(ctx context.Context, s *Subject) (Finding, error) {
	if s.Peer != "" {
		return program("peer "+s.Peer)(ctx, s)
	}
	return program("interfaces")(ctx, s)
}

// listeners looks for sockets in state 0A, which is listening. The supervisor's own, at port 7443 of an address that is not the loopback's,
// is the host's way in.
const listeners = `n=0; for f in /proc/net/tcp /proc/net/tcp6; do
[ -r $f ] && while read -r a b c state rest; do
case $b in *00000000:1D13|0100007F:1D13|*01000000:1D13) ;; *:1D13) continue ;; esac
[ "$state" = 0A ] && n=$((n+1)); done <$f
done; [ $n = 0 ] && echo "held: nothing listens" || echo "breach: $n listening sockets"`

// configured reports a network that the owner has configured as weak.
func configured(try attack) attack {
	return func(ctx context.Context, s *Subject) (Finding, error) {
		f, err := try(ctx, s)
		if err == nil && f.Status == Fail && s.Spec.Network != "none" {
			return allowed("network is %q: %s", s.Spec.Network, f.Detail), nil
		}
		return f, err
	}
}

func metadataProbes() []Probe {
	const why = "the cloud's metadata service hands out the machine's credentials"
	byName := reach(metadataRow, "metadata/name", why, "http http://metadata.google.internal:8082/", "tcp", "169.254.169.254:8082")
	byName.Control = always(Control{
		Weakness: docker.Weakness{Powerful: true, HostName: "metadata.google.internal:169.254.169.254"}, Root: true,
		Setup: serving("tcp", "169.254.169.254:8082"),
	})
	return []Probe{
		reach(metadataRow, "metadata/address", why, "http http://169.254.169.254/", "tcp", "169.254.169.254:80"),
		reach(metadataRow, "metadata/mapped", why, "mapped 169.254.169.254:8080", "tcp", "169.254.169.254:8080"),
		reach(metadataRow, "metadata/redirect", why, "redirect http://169.254.169.254:8081/", "tcp", "169.254.169.254:8081"),
		reach(metadataRow, "metadata/containers", why, "http http://169.254.170.2/", "tcp", "169.254.170.2:80"),
		byName,
	}
}
