package sandboxtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/sandbox/docker"
	"github.com/flynnhost/flynn/sdk/need"
)

// OverTLS starts an engine that can also be reached over TLS on the loopback, and returns the driver's configuration.
func OverTLS(t testing.TB) (*Private, docker.Config) {
	t.Helper()
	dir := t.TempDir()
	ca := newAuthority(t, dir)
	ca.issue(t, "server", x509.ExtKeyUsageServerAuth)
	ca.issue(t, "client", x509.ExtKeyUsageClientAuth)
	file := func(name string) string { return filepath.Join(dir, name) }
	address := "tcp://" + need.Address(t)
	e := Own(t, "--host", address, "--tlsverify",
		"--tlscacert", file("ca.pem"), "--tlscert", file("server.pem"), "--tlskey", file("server-key.pem"))
	return e, docker.Config{Engine: address, CA: file("ca.pem"), Cert: file("client.pem"), Key: file("client-key.pem")}
}

// authority issues certificates into a folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority writes its certificate to ca.pem.
func newAuthority(t testing.TB, dir string) *authority {
	t.Helper()
	a := &authority{dir: dir}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.write(t, "ca", a.cert)
	return a
}

// issue writes a certificate and its key to NAME.pem and NAME-key.pem.
func (a *authority) issue(t testing.TB, name string, usage x509.ExtKeyUsage) {
	t.Helper()
	a.write(t, name, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
}

func (a *authority) write(t testing.TB, name string, cert *x509.Certificate) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + "-key.pem": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return key
}

// SSH is an sshd on the loopback that belongs to one test.
type SSH struct {
	// Args are the arguments for an ssh client with access, Stranger those for a client that does not know the host.
	Args, Stranger []string
	Port           string
}

// OverSSH starts an sshd that accepts the user of the test with a new key.
func OverSSH(t testing.TB) SSH {
	t.Helper()
	dir, err := os.MkdirTemp("", "flynn-sshd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	sshd, err := exec.LookPath("sshd") // sshd requires its full path
	if err != nil {
		sshd = "/usr/sbin/sshd"
		_, err = os.Stat(sshd)
	}
	need.Part(t, "sshd", err)
	if os.Getuid() == 0 {
		need.Part(t, "sshd", os.MkdirAll("/run/sshd", 0o755)) // required by sshd
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"host", "user"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file(name)).CombinedOutput()
		need.Part(t, "sshd", wrap(err, out))
	}
	host, port, _ := net.SplitHostPort(need.Address(t))
	public, err := os.ReadFile(file("host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, format string, args ...any) {
		if err := os.WriteFile(file(name), fmt.Appendf(nil, format, args...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("known", "[%s]:%s %s", host, port, public)
	write("sshd_config", "ListenAddress %s:%s\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPidFile none\n"+
		"PasswordAuthentication no\nPermitRootLogin prohibit-password\n", host, port, file("host"), file("user.pub"))
	write("ssh_config", "IdentityFile %s\nIdentitiesOnly yes\nUserKnownHostsFile %s\nGlobalKnownHostsFile none\n", file("user"), file("known"))
	write("stranger_config", "IdentityFile %s\nUserKnownHostsFile none\nGlobalKnownHostsFile none\n", file("user"))
	cmd := exec.Command(sshd, "-D", "-e", "-f", file("sshd_config"))
	cmd.Stderr = t.Output()
	need.Part(t, "sshd", cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	awaitPort(t, net.JoinHostPort(host, port))
	return SSH{Args: []string{"-F", file("ssh_config")}, Stranger: []string{"-F", file("stranger_config")}, Port: port}
}

// Engine returns the configuration of a driver that reaches an engine's socket through the sshd.
func (s SSH) Engine(e *Private) docker.Config {
	return docker.Config{Engine: "ssh://127.0.0.1:" + s.Port + e.Socket(), SSH: s.Args}
}

func wrap(err error, output []byte) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", err, strconv.Quote(string(output)))
}

// awaitPort waits until somebody listens.
func awaitPort(t testing.TB, address string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
	}
}
